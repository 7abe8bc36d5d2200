# run-gpu.sh of the integrated tree: build | run (tests in parallel, then measurements)
cd "$(dirname "$0")"
export PATH=/usr/local/cuda/bin:$PATH
D=/tmp/fb/pg; mkdir -p /tmp/fb; chmod 1777 /tmp/fb; export FASTED_BENCH_DIR=/tmp/fb
T="engine_test two_sets_test groups_test cosine_test prune_test set_test devices_test connections_test keepers_test life_test quantise_test instruction_test host_test"
if [ $1 = build ]; then
	. $PGPACK/activate
	( make -s -j16 -C test/cuda CUDA_ARCH=90a $(for t in $T; do echo build/$t; done) build/fasted_cuda.so build/fasted_once.so 2>&1 | grep -iE "error|warning" | head
	  make -s -j4 -C test/unit BUILD=$PWD/test/cuda/build/unit TESTS="test_nearest test_double" all 2>&1 | tail -3
	  cp test/cuda/build/*.o /tmp/ 2>/dev/null; mkdir -p bench/kernel/build; cp test/cuda/build/*.o bench/kernel/build/; rm -f bench/kernel/build/*_test.o
	  make -s -j8 -C bench/kernel GPU=h200 build/join_bench build/engine_bench 2>&1 | grep -iE "error" | head -3 ) &
	( timeout 300 test/setup/private-server start $D with_llvm=no CUDA_ARCHS=90a >/tmp/fb.env 2>/tmp/fb.err || tail -5 /tmp/fb.err ) &
	( cp /root/minilm16.npy . 2>/dev/null && mkdir -p bench/datasets/files && python3 -c "
import numpy; numpy.save('bench/datasets/files/debian-minilm.npy', numpy.load('minilm16.npy').astype(numpy.float32))" ) &
	wait
	cp test/cuda/build/fasted_cuda.so fasted_cuda.so
	ls -la test/cuda/build/*_test fasted_cuda.so bench/kernel/build/*_bench | awk '{print $5, $9}'
	exit
fi
if [ $1 = tests ]; then
	B=test/cuda/build; L=$OUTDIR; S=$(date +%s)
	t() { n=$1; shift; ( b=$(date +%s); timeout ${LIM:-175} "$@" >$L/$n.tap 2>&1; echo "rc $? $(( $(date +%s)-b )) s" >>$L/$n.tap ) & }
	for n in $T; do t $n $B/$n; done
	export FASTED_ENGINE_LIBRARY=$PWD/$B/fasted_cuda.so
	t nearest $B/unit/test_nearest
	t double $B/unit/test_double
	FASTED_QUICK=1 FASTED_ENGINE_DEVICES=3 t nearest_group $B/unit/test_nearest
	FASTED_QUICK=1 FASTED_ENGINE_DEVICES=3 t double_group $B/unit/test_double
	FASTED_ENGINE_LIBRARY=$PWD/$B/fasted_once.so t once $B/unit/test_nearest
	unset FASTED_ENGINE_LIBRARY
	. $PGPACK/activate
	t sql bash -c "test/setup/private-server run $D test/cuda/sql.sh; PGOPTIONS='-c fasted.engine=cuda' test/setup/private-server run $D make -s installcheck TAP_TESTS= NVCC="
	wait
	for f in $L/*.tap; do echo "$(basename $f .tap): $(grep -c '^ok' $f) ok, $(grep -c '^not ok' $f) not ok, $(tail -1 $f)"; grep '^not ok' $f | head -3; done
	grep -E "^test .*(FAILED|failed)" $L/sql.tap
	echo "tests took $(( $(date +%s)-S )) s"
	exit
fi

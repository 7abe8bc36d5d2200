# fasted: finds all pairs of vectors within a distance, exactly, in SQL.
#
# With an existing PostgreSQL server (15 to 18), as usual with PGXS:
#
#	make && make install && make installcheck	[PG_CONFIG=/path/to/pg_config]
#
# The same goals of fasted_citus, which divides joins over a Citus cluster, are part of "all" and
# "install"; "make installcheck-citus" tests it.
#
# Without a server, on Debian or Ubuntu (see doc/development.md):
#
#	make demo			starts a private server with a sample, and shows its closest pairs
#	make demo DATA=debian-wordllama		uses embeddings of sentences; also DATA=debian-minilm
#	make check			builds the extension, and runs all tests in a private server

# fasted_pgvector has no library of its own
EXTENSION = fasted fasted_pgvector/fasted_pgvector

BENCH_GOALS = bench bench-cpu bench-data report bench-check bench-kernel bench-join bench-large bench-over-rows bench-rows

# These goals install PostgreSQL themselves, so PGXS need not exist yet.
SETUP_GOALS = demo demo-clean check check-arm check-asan check-bytes check-cassert check-citus check-debian check-foreign check-old \
	check-pg16 check-pg17 check-pg18 check-tsan coverage dist fuzz gpucheck setup-clean sqlsmith

ifneq ($(filter $(SETUP_GOALS) $(BENCH_GOALS) mutation,$(MAKECMDGOALS)),)

.PHONY: $(SETUP_GOALS)
export VARIANT DATA
$(SETUP_GOALS):
	@test/setup/$(subst check-pg,check-pg ,$@)

# MUTATION="--sample 50 src/tree" passes options and files.
.PHONY: mutation
mutation:
	@test/mutation/run $(MUTATION)

# bench/README.md describes the benchmarks.  "bench" and "bench-cpu" run the complete evaluation
# on a machine with a GPU and on a machine without a GPU.
.PHONY: $(BENCH_GOALS)
PYTHON ?= python3
BENCH_DEVICE ?= cuda
bench:
	@bench/throughput/run.py
	@bench/brute_force/run.py
	@bench/profile/run.py
	@bench/real_world/run.py --gemm
	@bench/groups/run.py --engine cuda
	@bench/hdbscan/run.py --engine cuda --large
	@$(MAKE) --no-print-directory bench-large bench-over-rows report
bench-cpu:
	@bench/cpu_join/run.py
	@bench/pruning/run.py
	@bench/groups/run.py
	@bench/hdbscan/run.py
	@bench/nearest/run.py
	@bench/real_world/run.py --device cpu --data debian-text debian-minilm wallpaper-sift=200000 embedding-512=60000
	@$(MAKE) --no-print-directory bench-over-rows bench-rows BENCH_DEVICE=cpu
bench-data:
	@bench/datasets/make.py wallpaper-sift debian-text debian-minilm debian-wordllama
report:
	@bench/report/run.py
bench-check:
	@for test in bench/*/test_*.py; do $(PYTHON) $$test -v || exit; done
	@$(PYTHON) bench/report/run.py --check
bench-kernel bench-join:
	@$(MAKE) -C bench/kernel $@
bench-large:
	@bench/real_world/run.py --large
bench-over-rows:
	@bench/real_world/run.py --results over_rows --device $(BENCH_DEVICE) --selectivity 64 \
		--data $(addprefix tiny-like=,1000 3000 10000 20000 50000 100000 200000 300000 1000000) \
		--only "fasted cuda" "fasted cpu" "FAISS flat, CPU" "scikit-learn brute force" "pgvector nested loop"
bench-rows:
	@bench/rows_in/run.py
	@bench/rows_out/run.py

else

# The first rule is the default goal; PGXS adds to it.
all:

MODULE_big = fasted
DATA = $(wildcard sql/fasted--*.sql fasted_pgvector/sql/fasted_pgvector--*.sql)
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c src/cpu/*/*.c)))

# Distances are bit-identical on all machines, so the compiler must not fuse a
# multiplication and an addition unless the source uses fma().
FP_FLAGS = -ffp-contract=off

PG_CPPFLAGS = -I$(srcdir)/src
PG_CFLAGS = -pthread $(FP_FLAGS)
SHLIB_LINK = -pthread -lm -Wl,--version-script=$(srcdir)/src/exports.map

REGRESS = $(patsubst sql/%.sql,%,$(sort $(filter-out sql/fasted--%,$(wildcard sql/*.sql))))

# The TAP tests start servers, which root must not do.
ifneq ($(wildcard test/t/*.pl),)
ifeq ($(shell perl -MIPC::Run -e 1 2>/dev/null && test "$$(id -u)" != 0 && echo yes),yes)
TAP_TESTS = 1
PROVE_TESTS ?= test/t/*.pl
else
installcheck: tap-skipped
endif
endif

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error $(PG_CONFIG) was not found: install the development files of PostgreSQL or set PG_CONFIG ("make demo" installs them))
endif

include $(PGXS)

include $(srcdir)/src/build.mk

# Loops over elements take most of the time to read a row that is stored inline.
src/functions/medoid.o src/rows/vector.o $(patsubst %,src/index/%.o,basis project bound kinds scan): CFLAGS += $(CFLAGS_VECTORIZE)

src/fasted.o src/fasted.bc src/info.o src/info.bc: CPPFLAGS += -DFASTED_VERSION='"$(FASTED_VERSION)"'
src/core.o src/core.bc: CPPFLAGS += -DFASTED_INTERFACE='"$(FASTED_INTERFACE)"'

include cuda/cuda.mk

# The extension for Citus clusters has a Makefile of its own; "make CITUS=" leaves it out.
CITUS ?= $(wildcard fasted_citus)
CITUS_GOALS = all install uninstall clean installcheck
ifneq ($(CITUS),)
all: all-citus
install: install-citus
install-citus: all-citus
uninstall: uninstall-citus
clean: clean-citus
endif

.PHONY: $(CITUS_GOALS:%=%-citus)
$(CITUS_GOALS:%=%-citus): %-citus:
	$(MAKE) -C fasted_citus $*

.PHONY: tap-skipped
tap-skipped:
	@echo "TAP tests are skipped: they need Perl's IPC::Run and a user other than root"

endif

# fasted: every pair of vectors within a distance, exactly, from SQL.
#
# With a PostgreSQL server of your own (15 to 18), the usual PGXS way:
#
#	make && make install && make installcheck	[PG_CONFIG=/path/to/pg_config]
#
# Without one, on Debian or Ubuntu (doc/development.md has the rest):
#
#	make demo			a private server with a sample, and the closest pairs in it
#	make demo DATA=debian-wordllama		the same of sentences, or of debian-minilm
#	make check			build, then run every test in a private server

EXTENSION = fasted

BENCH_GOALS = bench bench-cpu bench-data report bench-check bench-kernel bench-join bench-large bench-rows

# Goals that prepare PostgreSQL themselves, so PGXS cannot be required yet.
SETUP_GOALS = demo demo-clean check check-arm check-asan check-cassert check-citus check-debian check-foreign check-old \
	check-pg16 check-pg17 check-pg18 check-tsan dist gpucheck setup-clean

ifneq ($(filter $(SETUP_GOALS) $(BENCH_GOALS),$(MAKECMDGOALS)),)

.PHONY: $(SETUP_GOALS)
export VARIANT DATA
$(SETUP_GOALS):
	@test/setup/$(subst check-pg,check-pg ,$@)

# bench/README.md says what each measures.  "bench" and "bench-cpu" are the whole
# evaluation, on a machine with a GPU and on one without.
.PHONY: $(BENCH_GOALS)
PYTHON ?= python3
bench:
	@bench/throughput/run.py
	@bench/brute_force/run.py
	@bench/optimizations/run.py
	@bench/profile/run.py
	@bench/accuracy/run.py
	@bench/real_world/run.py --gemm
	@bench/groups/run.py --engine cuda
	@$(MAKE) --no-print-directory bench-large report
bench-cpu:
	@bench/cpu_join/run.py
	@bench/pruning/run.py
	@bench/groups/run.py
	@bench/nearest/run.py
	@bench/real_world/run.py --device cpu --data debian-text debian-minilm wallpaper-sift=200000 embedding-512=60000
	@$(MAKE) --no-print-directory bench-rows
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
bench-rows:
	@bench/rows_in/run.py
	@bench/rows_out/run.py

else

# The first rule, so the one that a plain "make" means; PGXS adds to it.
all:

MODULE_big = fasted
DATA = $(wildcard sql/fasted--*.sql)
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))

# Distances are equal bit for bit on every machine, so the compiler must not
# fuse a multiplication and an addition where the source does not say fma().
FP_FLAGS = -ffp-contract=off

PG_CPPFLAGS = -I$(srcdir)/src
PG_CFLAGS = -pthread $(FP_FLAGS)
SHLIB_LINK = -pthread -lm -Wl,--version-script=$(srcdir)/src/exports.map

REGRESS = $(patsubst sql/%.sql,%,$(sort $(filter-out sql/fasted--%,$(wildcard sql/*.sql))))

# The TAP tests start servers of their own, which root may not.
ifneq ($(wildcard test/t/*.pl),)
ifeq ($(shell perl -MIPC::Run -e 1 2>/dev/null && test "$$(id -u)" != 0 && echo yes),yes)
TAP_TESTS = 1
PROVE_TESTS ?= test/t/*.pl
else
installcheck: tap-left-out
endif
endif

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error $(PG_CONFIG) was not found: install the development files of PostgreSQL or set PG_CONFIG; "make demo" does it for you)
endif

include $(PGXS)

# The bitcode for the just-in-time compiler has flags of its own.
BITCODE_CFLAGS += $(FP_FLAGS)

# Its loops over elements are most of what a row in line costs.
src/rows/vector.o: CFLAGS += $(CFLAGS_VECTORIZE)

# The version that the library says it has.
src/fasted.o src/fasted.bc src/info.o src/info.bc: CPPFLAGS += -DFASTED_VERSION='"$(shell sed -n "s/^default_version = '\(.*\)'/\1/p" fasted.control)"'

include cuda/cuda.mk
include src/citus/libpq/libpq.mk

# PostgreSQL is often configured without automatic dependencies.
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h src/*/*.h)

.PHONY: tap-left-out
tap-left-out:
	@echo "TAP tests are left out: they need Perl's IPC::Run and a user other than root"

endif

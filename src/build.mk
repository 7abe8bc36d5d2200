# Rules of the Makefiles of fasted and fasted_citus, to be included after those of PGXS.

# A library is installed under another name and then renamed, so that no session loads a file
# that is not complete.
install_shlib := $(INSTALL_SHLIB)
INSTALL_SHLIB = replace() { $(install_shlib) "$$1" "$$2.new" && mv -f "$$2.new" "$$2"; }; replace

# The bitcode for the just-in-time compiler has separate flags.
BITCODE_CFLAGS += $(FP_FLAGS)

# The version, and a checksum of all declarations, by which two libraries know that they fit
# each other (src/core.h).
FASTED_SOURCES := $(dir $(lastword $(MAKEFILE_LIST)))
FASTED_HEADERS := $(sort $(wildcard $(FASTED_SOURCES)*.h $(FASTED_SOURCES)*/*.h $(FASTED_SOURCES)cpu/*/*.h))
FASTED_VERSION := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(FASTED_SOURCES)../fasted.control)
FASTED_INTERFACE := $(FASTED_VERSION)-$(shell cat $(FASTED_HEADERS) | cksum | tr ' ' -)

# PostgreSQL is often configured without automatic dependencies.
$(OBJS) $(OBJS:.o=.bc): $(FASTED_HEADERS) $(wildcard src/*.h)

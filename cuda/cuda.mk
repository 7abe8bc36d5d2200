# Builds the CUDA engine from cuda/*/*.cu as fasted_cuda.so, a separate library that the
# extension loads on first use.  Without nvcc, only the CPU engine is built.
#
#	make NVCC=/path/to/nvcc			another compiler
#	make NVCC=						no CUDA engine
#	make CUDA_ARCHS="80 90a"		other architectures

NVCC ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))

# Compute capabilities for which machine code is generated.  PTX code is also generated for the
# first one; the driver compiles it for newer GPUs.
CUDA_ARCHS ?= 80 86 89 90a
CUDA_PTX_ARCH ?= $(firstword $(CUDA_ARCHS))

CUDA_SOURCES = $(sort $(wildcard cuda/*/*.cu))
CUDA_HEADERS = $(wildcard cuda/*/*.cuh cuda/*/*.h src/engine/*.h)
CUDA_OBJS = $(CUDA_SOURCES:.cu=.cu.o) cuda/metric_rules.cu.o
CUDA_LIBRARY = fasted_cuda$(DLSUFFIX)

ifeq ($(CUDA_SOURCES),)
CUDA_NOTE = no CUDA source: the CPU engine alone is built
else ifeq ($(NVCC),)
CUDA_NOTE = no nvcc: the CPU engine alone is built
else
CUDA_NOTE = CUDA engine: $(NVCC), for compute capability $(CUDA_ARCHS), and PTX of $(CUDA_PTX_ARCH)
CUDA_BUILT = $(CUDA_LIBRARY)
endif

NVCC_FLAGS = -std=c++17 -O3 -cudart static -I$(srcdir)/cuda -I$(srcdir)/src \
	-Xcompiler -fPIC,-fvisibility=hidden,-Wall,-ffp-contract=off $(CUDA_FLAGS)
CUDA_GENCODE = $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	-gencode arch=compute_$(CUDA_PTX_ARCH),code=compute_$(CUDA_PTX_ARCH)

.PHONY: cuda-note install-cuda uninstall-cuda clean-cuda

all: cuda-note $(CUDA_BUILT)

cuda-note:
	@echo "fasted: $(CUDA_NOTE)"

%.cu.o: %.cu $(CUDA_HEADERS)
	$(NVCC) $(NVCC_FLAGS) $(CUDA_GENCODE) -c -o $@ $<

# the table that the library shares with the extension
cuda/metric_rules.cu.o: src/engine/metric_rules.c $(CUDA_HEADERS)
	$(CC) $(CFLAGS) -fPIC -fvisibility=hidden -c -o $@ $<

# without this, make's built-in rules would link the sources
$(CUDA_SOURCES): ;

$(CUDA_LIBRARY): $(CUDA_OBJS)
	$(NVCC) -shared -cudart static $(CUDA_GENCODE) -Xlinker --exclude-libs,ALL -o $@ $^

install: install-cuda
install-cuda: $(CUDA_BUILT) installdirs
ifneq ($(CUDA_BUILT),)
	$(INSTALL_SHLIB) $(CUDA_LIBRARY) '$(DESTDIR)$(pkglibdir)/$(CUDA_LIBRARY)'
endif

uninstall: uninstall-cuda
uninstall-cuda:
	rm -f '$(DESTDIR)$(pkglibdir)/$(CUDA_LIBRARY)'

clean: clean-cuda
clean-cuda:
	rm -f $(CUDA_LIBRARY) $(CUDA_OBJS)

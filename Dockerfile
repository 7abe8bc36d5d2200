# The official PostgreSQL image with the extension.  Build and run it:
#
#	docker build --tag fasted [--build-arg PG_MAJOR=17] .
#	docker run --env POSTGRES_PASSWORD=secret fasted
#
# Dockerfile.cuda adds the CUDA engine.
ARG PG_MAJOR=18
FROM postgres:${PG_MAJOR}-trixie AS build
ARG PG_MAJOR
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make postgresql-server-dev-${PG_MAJOR}
COPY Makefile fasted.control /fasted/
COPY cuda /fasted/cuda
COPY sql /fasted/sql
COPY src /fasted/src
RUN make -C /fasted NVCC= clean && make -C /fasted NVCC= -j2 && make -C /fasted NVCC= install DESTDIR=/installed

FROM postgres:${PG_MAJOR}-trixie
COPY --from=build /installed/ /

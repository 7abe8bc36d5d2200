# The official PostgreSQL image with the extension, which sessions preload, and pgvector.  Build,
# run and use it:
#
#	docker build --tag fasted [--build-arg PG_MAJOR=17] .
#	docker run --detach --name fasted --env POSTGRES_PASSWORD=secret fasted
#	docker exec --interactive --tty fasted psql --username postgres
#
# Dockerfile.cuda adds the CUDA engine.
ARG PG_MAJOR=18
FROM postgres:${PG_MAJOR}-trixie AS build
ARG PG_MAJOR
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make postgresql-server-dev-${PG_MAJOR}
COPY Makefile fasted.control /fasted/
COPY cuda /fasted/cuda
COPY fasted_citus /fasted/fasted_citus
COPY fasted_pgvector /fasted/fasted_pgvector
COPY sql /fasted/sql
COPY src /fasted/src
RUN make -C /fasted NVCC= clean && make -C /fasted NVCC= -j2 && make -C /fasted NVCC= install DESTDIR=/installed

FROM postgres:${PG_MAJOR}-trixie
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-${PG_MAJOR}-pgvector && rm -rf /var/lib/apt/lists/*
RUN echo "session_preload_libraries = 'fasted'" >>/usr/share/postgresql/${PG_MAJOR}/postgresql.conf.sample
COPY --from=build /installed/ /

# Vigla as an image: built with the Swift toolchain, run with nothing but the program and the libraries of Debian that it needs.
#
#   docker build -t vigla .
#   docker run -p 127.0.0.1:9000:9000 -v vigla:/data -v ./config:/etc/vigla:ro \
#              -e VIGLA_RULES=/etc/vigla/rules.json vigla
#
# For a hub of a cluster (docs/cluster.md):   docker build --build-arg CLUSTER=1 -t vigla-cluster .
#
# Without VIGLA_RULES every read and write is denied. The first start leaves an administrator's secret in /data/admin-secret.txt
# (docker cp CONTAINER:/data/admin-secret.txt .). Any other command runs the same way: docker run vigla rules check …
#
# Tests/Docker/run builds this with an engine; Tests/Packaging/run executes the steps without one. That one knows the instructions used
# here and stops at any other; RUN steps of the build stage use paths relative to WORKDIR so that they also run outside a container.

# ---- build ----------------------------------------------------------------------------------------------------------
# Swift 6.3 on Debian 12, the same Debian as below: the binary finds the C libraries it was linked with.
FROM swift:6.3.1-bookworm AS build
ARG CLUSTER=
RUN apt-get update && apt-get install -y --no-install-recommends libssl-dev zlib1g-dev libsqlite3-dev libcurl4-openssl-dev \
    ${CLUSTER:+libnats-dev}
WORKDIR /src

# Dependencies first, in the versions of the lock: they are fetched again only when the manifest or the lock changes.
COPY Package.swift ./
COPY Packaging/swift-packages.lock Packaging/
COPY Scripts/swift-packages Scripts/
RUN Scripts/swift-packages

# The manifest names the targets of tests and benchmarks, so their folders must be here; they are not compiled.
COPY Sources Sources
COPY Benchmarks Benchmarks
COPY Examples Examples
COPY Tests Tests
COPY Scripts Scripts
# Compiled into the program (Sources/CRecipes).
COPY docs/recipes.md docs/
# The program of `make dist`: with the Swift runtime, SQLite and zlib in it, without symbols; those are beside it, in vigla.debug.
RUN VIGLA_WITH_CLUSTER=${CLUSTER:-0} Scripts/build-static out

# ---- system ---------------------------------------------------------------------------------------------------------
# What the program asks of Debian beyond itself: its libraries, the certificate authorities that `vigla get https://…` believes, and the
# time zones of rules. Only that goes on, without a shell and a package manager: nothing is there that the hub does not use.
FROM debian:bookworm-slim AS system
ARG CLUSTER=
RUN apt-get update \
    && apt-get install -y --no-install-recommends libssl3 libcurl4 libgcc-s1 ca-certificates tzdata ${CLUSTER:+libnats3.4}
COPY --from=build /src/out/vigla /usr/bin/vigla
COPY Scripts/image-root /usr/local/bin/image-root
# 10001 is a fixed number, so that the owner of a mounted /data is the same on every host and in every version of the image.
RUN image-root /usr/bin/vigla 10001 /image

# ---- run ------------------------------------------------------------------------------------------------------------
FROM scratch
LABEL org.opencontainers.image.title="Vigla" \
      org.opencontainers.image.description="A self-hosted realtime hub" \
      org.opencontainers.image.licenses="Apache-2.0"

COPY --from=system /image /
COPY --from=system --chown=10001:10001 /image/data /data
COPY LICENSE /usr/share/doc/vigla/LICENSE
COPY web /usr/share/vigla/web
COPY docs /usr/share/vigla/web/docs

ENV PATH=/usr/bin \
    VIGLA_HOST=0.0.0.0 \
    VIGLA_PORT=9000 \
    VIGLA_DATA=/data \
    VIGLA_WEB=/usr/share/vigla/web

USER 10001:10001
VOLUME /data
EXPOSE 9000
STOPSIGNAL SIGTERM
# Asks the hub as this environment has it: VIGLA_PORT, and TLS when VIGLA_TLS_CERT is set; VIGLA_TLS_NAME is then the name
# in the certificate.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["/usr/bin/vigla", "health"]
ENTRYPOINT ["/usr/bin/vigla"]
CMD ["serve"]

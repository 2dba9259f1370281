#   docker build -t peeklock .
#   docker run --rm -p 127.0.0.1:5672:5672 -p 127.0.0.1:5300:5300 -v peeklock:/data peeklock
#
# For several platforms at once (needs QEMU or a builder for each platform):
#   docker buildx build --platform linux/amd64,linux/arm64 -t registry.example/peeklock --push .
#
# The image contains only a static binary. Where no base image can be pulled, use a binary compiled before:
# BINARY_FROM=prebuilt copies `peeklock`, an empty directory `data` and the licences from the build context.
# tests/image.sh does that, with buildah and without a container engine.

# The image that compiles; may be a mirror.
ARG BUILD_IMAGE=rust:1.95-alpine
# The base image; one with /etc/passwd and a shell makes inspection easier.
ARG FINAL_IMAGE=scratch
# `compiled` or `prebuilt`.
ARG BINARY_FROM=compiled

FROM ${BUILD_IMAGE} AS compiled
# For ring, whose cryptography is partly in C and assembly.
RUN apk add --no-cache musl-dev gcc make perl
WORKDIR /src
ARG REVISION=unknown
ENV PEEKLOCK_REVISION=${REVISION}
COPY . .
# On Alpine the binary is static, so it needs no files of the image.
RUN cargo build --locked --release -p peeklock && \
    install -D target/release/peeklock /out/peeklock && \
    install -d -m 0750 /out/data

FROM scratch AS prebuilt
COPY peeklock /out/peeklock
COPY data /out/data

FROM ${BINARY_FROM} AS binary

FROM ${FINAL_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Peeklock" \
      org.opencontainers.image.description="A durable message broker that speaks Azure Service Bus" \
      org.opencontainers.image.licenses="Apache-2.0 OR MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=binary /out/peeklock /usr/local/bin/peeklock
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/peeklock/
# Messages, and their backups. Owned by the broker's user, as are new volumes that are mounted there.
COPY --from=binary --chown=65532:65532 /out/data /data
COPY --from=binary --chown=65532:65532 /out/data /backups
# Tests and compose files for the Service Bus emulator put its file here; some tools copy only into existing directories.
WORKDIR /ServiceBus_Emulator/ConfigFiles
WORKDIR /
# Numbers, because an empty image has no user names.
USER 65532:65532
# On every interface of the container, which is reachable only through published ports.
ENV PEEKLOCK_DATA_DIR=/data \
    PEEKLOCK_AMQP=0.0.0.0:5672 \
    PEEKLOCK_HTTP=0.0.0.0:5300 \
    PEEKLOCK_ALSO_LISTEN=0.0.0.0:5671 \
    PEEKLOCK_ALLOW_DEFAULT_KEY=true
VOLUME /data
EXPOSE 5671 5672 5300
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/peeklock", "health"]
ENTRYPOINT ["/usr/local/bin/peeklock"]
CMD ["serve"]

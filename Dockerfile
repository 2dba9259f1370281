#   docker build -t peeklock .
#   docker run --rm -p 5672:5672 -p 5300:5300 -v peeklock:/data peeklock
#
# The base images are arguments, so that a mirror or another distribution can be named:
#   docker build --build-arg BUILD_IMAGE=registry.example/rust:1.95-bookworm .
# The final image needs a C library at least as new as the build image's.
ARG BUILD_IMAGE=rust:1.95-bookworm
ARG FINAL_IMAGE=gcr.io/distroless/cc-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY . .
RUN cargo build --locked --release -p peeklock && \
    install -D target/release/peeklock /out/bin/peeklock && \
    install -d -m 0750 /out/data

FROM ${FINAL_IMAGE}
COPY --from=build /out/bin/peeklock /usr/local/bin/peeklock
# Numbers, because a final image may have no names; 65532 is distroless's own `nonroot`.
COPY --from=build --chown=65532:65532 /out/data /data
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/peeklock/
USER 65532:65532
ENV PEEKLOCK_DATA_DIR=/data \
    PEEKLOCK_AMQP=0.0.0.0:5672 \
    PEEKLOCK_HTTP=0.0.0.0:5300 \
    PEEKLOCK_ALLOW_DEFAULT_KEY=true
VOLUME /data
EXPOSE 5672 5300
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/peeklock", "health"]
ENTRYPOINT ["/usr/local/bin/peeklock"]
CMD ["serve"]

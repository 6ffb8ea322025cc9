# confine alone: "make build", then "docker build -t confine ." (podman build is the same). docs/CONTAINERS.md has the rest.
FROM scratch
COPY bin/confine bin/confine-server bin/confine-worker /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/confine"]

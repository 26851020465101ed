# Two stages: the first installs what is pinned, with hashes, and builds the service; the second holds nothing else.

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# pip and the build tools stay in /opt/build: the service's own environment has neither.
RUN python -m venv /opt/build && python -m venv --without-pip /opt/hookwire
# Alone, so that a change of the code does not fetch the packages again.
COPY requirements/run.txt requirements/
RUN /opt/build/bin/pip --python /opt/hookwire/bin/python install --no-deps --require-hashes --requirement requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY hub hub
COPY relay relay
COPY webhooks webhooks
COPY egress egress
COPY runtime runtime
COPY jobs jobs
COPY reqrep reqrep
COPY db db
COPY event event
COPY pipeline pipeline
COPY openapi openapi
COPY hookwire_server hookwire_server
COPY scripts/one_name.py scripts/wheel_hook.py scripts/
COPY sdk sdk
RUN /opt/build/bin/pip --python /opt/hookwire/bin/python install --no-deps --no-build-isolation ./sdk . \
    && /opt/build/bin/pip --python /opt/hookwire/bin/python uninstall --yes \
        editables hatchling pathspec pluggy tomlkit trove-classifiers

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="hookwire" org.opencontainers.image.licenses="Apache-2.0"
# tini is process 1: it passes signals on, and collects the programs that outlived their parents.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin \
    && useradd --system --uid 10001 --home-dir /var/lib/hookwire --create-home --shell /usr/sbin/nologin hookwire
COPY --from=build /opt/hookwire /opt/hookwire
# Others reach a container by its own address only, so it listens on all. That needs API keys: see the README.
ENV PATH=/opt/hookwire/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOOKWIRE_PROFILE=production \
    HOOKWIRE_LISTEN=0.0.0.0:8080 \
    HOOKWIRE_DATA_DIR=/var/lib/hookwire
USER 10001
WORKDIR /var/lib/hookwire
VOLUME /var/lib/hookwire
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
ENTRYPOINT ["tini", "--", "hookwire"]
CMD ["serve"]

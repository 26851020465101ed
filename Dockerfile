# Two stages: the first installs what is pinned, with hashes, and builds the service; the second holds nothing else.

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /opt/hookwire
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# Alone, so that a change of the code does not fetch the packages again.
COPY requirements/run.txt requirements/
RUN /opt/hookwire/bin/pip install --no-deps --require-hashes --requirement requirements/run.txt
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
RUN /opt/hookwire/bin/pip install --no-deps --no-build-isolation ./sdk . \
    && /opt/hookwire/bin/pip uninstall --yes editables hatchling pip

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="hookwire" org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --home-dir /var/lib/hookwire --create-home --shell /usr/sbin/nologin hookwire
COPY --from=build /opt/hookwire /opt/hookwire
ENV PATH=/opt/hookwire/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOOKWIRE_DATA_DIR=/var/lib/hookwire
USER 10001
WORKDIR /var/lib/hookwire
VOLUME /var/lib/hookwire
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["hookwire"]
CMD ["serve"]

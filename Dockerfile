# archcli without torch: what counts, sizes and predicts. `docker build -t archcli .` in a clone, then `docker run --rm archcli fit llama-3.1-70b 2xrtx-3090`,
# and for files of yours `docker run --rm -v "$PWD:/work:ro" archcli params small.yaml`.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md CHANGELOG.md LICENSE NOTICE ./
COPY archcli archcli
COPY presets presets
COPY devices devices
COPY engines engines
COPY trainers trainers
RUN python -m venv /opt/archcli && /opt/archcli/bin/pip install --no-cache-dir '.[formula]'

FROM python:3.13-slim
COPY --from=build /opt/archcli /opt/archcli
RUN useradd --uid 1000 --create-home user
USER 1000
WORKDIR /work
ENTRYPOINT ["/opt/archcli/bin/archcli"]
CMD ["--help"]

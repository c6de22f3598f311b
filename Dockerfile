# naic with its model, for images that are mounted:
#   docker build -t naic .
#   docker run --rm -v "$PWD:/images:ro" naic caption /images
# With the HTTP server (docs/serve.md): --build-arg EXTRAS=serve, then
#   docker run --rm -p 127.0.0.1:8000:8000 naic serve --host 0.0.0.0
# It is for the processor, and has no PyTorch. For an NVIDIA card (`docker run --gpus all`), and to
# train: --build-arg EXTRAS=train, which takes the PyTorch that the package index has; of its CPU
# wheels, if you name their address with --build-arg TORCH_INDEX=.
ARG PYTHON=3.12
FROM python:${PYTHON}-slim AS build

ARG TORCH=2.13.0
ARG TORCH_INDEX=
ARG EXTRAS=

RUN python -m venv /opt/naic
ENV PATH=/opt/naic/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# torch first, for extras that need it: it is the largest, and changes least.
RUN case ",${EXTRAS}," in *,train,*|*,onnx,*|*,timm,*) \
        pip install "torch==${TORCH}" ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} ;; esac

WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY configs configs
COPY src src
RUN pip install -c constraints.txt ".${EXTRAS:+[${EXTRAS}]}"

FROM python:${PYTHON}-slim

# PyTorch's threads need the OpenMP library, which the slim image does not have.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 naic

COPY --from=build /opt/naic /opt/naic
ENV PATH=/opt/naic/bin:$PATH PYTHONUNBUFFERED=1

USER naic
WORKDIR /home/naic
ENTRYPOINT ["naic"]
CMD ["--help"]

# One image for CPUs, NVIDIA GPUs and TPUs:
#   docker build --build-arg PLATFORM=cuda12 -t jaxrobust .      PLATFORM: cpu, cuda12 or tpu
#   docker run --gpus=all -v "$PWD/runs:/runs" jaxrobust train --config configs/cifar10.py:pgd-at --out=/runs/mine
FROM python:3.12-slim

ARG PLATFORM=cpu
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 JAXROBUST_CACHE=/cache
WORKDIR /jaxrobust
COPY pyproject.toml setup.py README.md LICENSE ./
COPY jaxrobust jaxrobust
COPY configs configs
RUN case "$PLATFORM" in \
      cpu) extras=report ;; \
      cuda12 | tpu) extras="report,$PLATFORM" ;; \
      *) echo "PLATFORM is cpu, cuda12 or tpu, not $PLATFORM" >&2; exit 2 ;; \
    esac \
    && pip install --disable-pip-version-check ".[$extras]" \
    && mkdir -p /cache && chmod 1777 /cache
ENTRYPOINT ["jaxrobust"]
CMD ["--help"]

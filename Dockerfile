# A small image with `unseen` on the CPU: docker build -t unseen . && docker run --rm -v "$PWD":/work unseen doctor
FROM python:3.13-slim
ARG EXTRAS=demo
# Where a CPU build of torch is had from, such as PyTorch's own index; without it pip's default is taken.
ARG TORCH_INDEX=""
WORKDIR /src
COPY pyproject.toml README.md LICENSE THIRD_PARTY_NOTICES.md ./
COPY src ./src
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url ${TORCH_INDEX}} torch torchvision \
 && pip install --no-cache-dir ".[${EXTRAS}]" \
 && useradd --create-home user
USER user
ENV UNSEEN_HOME=/home/user/unseen
WORKDIR /work
ENTRYPOINT ["unseen"]
CMD ["doctor"]

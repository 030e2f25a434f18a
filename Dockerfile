# The program in an image: docker build -t narrow . && docker run --rm -v "$PWD:/work" narrow stats model.safetensors
# Results are written by the user 1000; another one: docker run --user "$(id -u):$(id -g)" ...
FROM debian:12 AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ cmake ninja-build libeigen3-dev libcli11-dev nlohmann-json3-dev zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /narrow
COPY . .
RUN cmake -S . -B build/image -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DNARROW_UNITY=ON \
      -DNARROW_TESTS=OFF -DNARROW_NOTEBOOKS=OFF -DNARROW_CUDA=OFF -DNARROW_MPI=OFF -DNARROW_PYTHON=OFF \
    && cmake --build build/image \
    && DESTDIR=/image cmake --install build/image --strip \
    && rm -rf /image/usr/include /image/usr/lib \
    && NARROW_DATA=/image/usr/share/narrow/data /image/usr/bin/narrow run memory_and_speed --fast --json > build/tried.json

FROM debian:12-slim
LABEL org.opencontainers.image.title="narrow" \
      org.opencontainers.image.description="Number formats of machine learning, bit for bit" \
      org.opencontainers.image.licenses="MIT"
# gnuplot draws the pictures; man shows the pages: docker run --rm -it --entrypoint man narrow narrow
RUN apt-get update \
    && apt-get install -y --no-install-recommends gnuplot-nox man-db zlib1g libstdc++6 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 narrow \
    && install -d -o narrow -g narrow /work
COPY --from=build /image/ /
COPY LICENSE /usr/share/doc/narrow/copyright
USER 1000
WORKDIR /work
ENTRYPOINT ["narrow"]
CMD ["--help"]

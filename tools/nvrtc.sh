#!/usr/bin/env bash
# Installs NVRTC, which compiles kernels for NVIDIA's GPUs and needs none itself, into target/nvrtc,
# where .cargo/config.toml names it to tests. It is NVIDIA's wheel from PyPI: 90 MB to fetch, 114 MB
# kept, six seconds on a fast line. Does nothing where the system has one. Without it the tests that
# need it are skipped with a message.
#
# The version is that of the oldest driver's that Warpline's tests ran with (580, for CUDA 13.0): a
# newer compiler's cubins and PTX may be too new for a driver.
set -euo pipefail
cd "$(dirname "$0")/.."

WHEEL=nvidia-cuda-nvrtc==13.0.88
SHA256=ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575
FOLDER=target/nvrtc

left_out() {
    echo "without NVRTC ($1): tests that compile kernels for CUDA are left out" >&2
    exit 0
}

has_pip() { "$1" -m pip --version >/dev/null 2>&1; }

[ ! -e "$FOLDER/libnvrtc.so.13" ] || exit 0
if ldconfig -p 2>/dev/null | grep 'libnvrtc\.so' >/dev/null ||
    [ -e /usr/local/cuda/lib64/libnvrtc.so ]; then
    exit 0
fi

for python in python3 /usr/bin/python3 ""; do
    [ -z "$python" ] && left_out "no pip"
    has_pip "$python" && break
done

mkdir -p target
fetched=$(mktemp -d target/nvrtc.XXXXXX)
trap 'rm -rf "$fetched"' EXIT
echo "$WHEEL --hash=sha256:$SHA256" >"$fetched/wanted.txt"
"$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --retries 1 --timeout 20 --no-deps --only-binary :all: --require-hashes \
    --target "$fetched" -r "$fetched/wanted.txt" ||
    left_out "pip could not install $WHEEL"

# A second build of the same, which nothing asks for.
rm -f "$fetched"/nvidia/cu13/lib/*.alt.so.*
cp "$fetched"/*.dist-info/licenses/License.txt "$fetched/nvidia/cu13/lib/"
rm -rf "$FOLDER"
mv "$fetched/nvidia/cu13/lib" "$FOLDER"

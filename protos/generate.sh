#!/bin/sh
# Regenerates pilum/format/pb from the .proto files. The compiler is the oldest that we support
# (protobuf 5), so that the generated modules load with every newer runtime.
set -eu
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet 'grpcio-tools==1.71.*'
"$tools/bin/python" -m grpc_tools.protoc --proto_path=pilum/format/pb=protos \
    --python_out=. --pyi_out=. protos/*.proto

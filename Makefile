# The commands of developers. `make run` and `make test` install missing packages first.

CARGO ?= cargo
DEMO  := target/demo

.PHONY: run test test-long kernel-races fuzz bench tunnels conntrack gateway-peer soak gpu-pack \
	gpu-test gpu-bench deps deps-test deps-races clean

# The demo chain over the demo capture; its files stay in target/demo.
run: deps
	$(CARGO) build --release -p warpline
	target/release/warpline demo $(DEMO)
	target/release/warpline run $(DEMO)/chain.toml --output $(DEMO)/out.pcap --stats $(DEMO)/stats.json

# Every check that a change has to pass.
test: deps-test
	./ci.sh

# The same properties with many more cases (about an hour).
test-long: deps-test
	PROPTEST_CASES=20000 SPINE_CASES=50 NAIVE_CASES=5000 NAIVE_SEED=clock \
		$(CARGO) test --release --workspace

# The kernels on a simulator that sees races and words that nobody wrote (some minutes).
kernel-races: deps-races
	tools/kernel_races.sh

# Every fuzz target for SECONDS each.
SECONDS ?= 600
fuzz:
	tools/fuzz.sh $(SECONDS)

# The benches, in turn; records are under bench/record.
bench: deps
	tools/bench.sh

# IPsec tunnels with the Linux kernel's ESP and with strongSwan, live, in network namespaces (root,
# about seven minutes).
tunnels: deps
	$(CARGO) build --release -p warpline
	tools/tunnels/run.sh target/release/warpline

# TCP as Linux's connection tracking judges it, beside the firewall (root, a minute).
conntrack: deps
	$(CARGO) build --release -p warpline
	tools/conntrack/run.sh target/release/warpline

# 100,000 packets through Warpline and the Linux kernel as gateways (root, two minutes).
gateway-peer: deps-test
	$(CARGO) build --release -p warpline
	python3 -B tools/gateway_peer/compare.py target/release/warpline

# A chain on network interfaces under traffic, reloads and rotation for SECONDS, 30 minutes by
# default (root).
soak: SECONDS = 1800
soak: deps-test
	$(CARGO) build --release -p warpline
	python3 -B tools/live_ports/soak.py target/release/warpline $(SECONDS)

# A folder for a machine with a GPU, which needs neither a network nor Rust.
gpu-pack: deps
	tools/gpu/pack.sh

# On this machine's GPU: every test of kernels and devices, and the measurements (CSVs in
# target/gpu/out). WARPLINE_DEVICE=opencl tries the same on OpenCL.
gpu-test gpu-bench:
	tools/gpu/run.sh check
	$(MAKE) gpu-pack
	target/gpu/run.sh $(@:gpu-%=%)

deps:
	tools/deps.sh build

deps-test:
	tools/deps.sh build test

deps-races:
	tools/deps.sh build races

clean:
	$(CARGO) clean

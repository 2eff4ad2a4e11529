//! Descriptions of keys, and the keys that every function's table may have.

/// A key of a function's table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name, units last.
    pub name: &'static str,
    /// The allowed values.
    pub allowed: &'static str,
    /// The default; "required" for a mandatory key.
    pub default: &'static str,
    /// Its effect, in a line.
    pub help: &'static str,
}

/// Keys that the engine reads in every function's table.
pub const COMMON_KEYS: &[Key] = &[
    Key {
        name: "function",
        allowed: "the name of a function",
        default: "the table's name",
        help: "the function that this table configures",
    },
    Key {
        name: "device",
        allowed: "cpu | auto | cuda:N | opencl:N | host",
        default: "auto",
        help: "the device, if the function has kernels; auto: by `[placement]`",
    },
    Key {
        name: "stage",
        allowed: "fused | own",
        default: "fused",
        help: "own: a separate queue, even if neighbours are on the same device",
    },
    Key {
        name: "launch_batches",
        allowed: "1 to 64",
        default: "1",
        help: "batches processed together; requires stage = \"own\"",
    },
    Key {
        name: "launch_kib",
        allowed: "1 to 65536",
        default: "1024",
        help: "on a device: the most KiB of frames in a launch",
    },
    Key {
        name: "launch_delay_us",
        allowed: "0 to 10000000",
        default: "100",
        help: "on a device: the longest wait of a packet for its launch to fill, in microseconds",
    },
    Key {
        name: "launch_timeout_ms",
        allowed: "1 to 600000",
        default: "2000",
        help: "on a device: milliseconds until an unfinished launch makes the device count as \
               failed",
    },
    Key {
        name: "streams",
        allowed: "1 to 64 | auto",
        default: "4",
        help: "on a device: concurrent launches per lane; auto: up to 8, chosen by measurement",
    },
    Key {
        name: "sync",
        allowed: "true | false",
        default: "false",
        help: "on a device: true makes the lane wait for each launch, as without streams",
    },
    Key {
        name: "graphs",
        allowed: "true | false",
        default: "false",
        help: "on CUDA 12.0 or later: true submits each launch as one graph",
    },
    Key {
        name: "in_place",
        allowed: "true | false",
        default: "true",
        help: "false: a device that shares host memory copies anyway, for experiments",
    },
];

#!/bin/sh
# The first program of a user-mode Linux: mounts, modules, then a shell on its console.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run
# Registers wider than SSE's are not kept here (see uml.py), so the C library is not to use them.
if [ -z "$GLIBC_TUNABLES" ]; then
    wide=-AVX_Fast_Unaligned_Load,-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-XSAVEC,-XSAVE
    export GLIBC_TUNABLES=glibc.cpu.hwcaps=$wide
    exec "$0"
fi
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
stty -F /dev/console -echo -onlcr 2>/dev/null
tree=$(sed -n 's/.*warpline_tree=\([^ ]*\).*/\1/p' /proc/cmdline)
for module in ipv6 xfrm_user esp4 esp6 xfrm4_tunnel xfrm6_tunnel authenc authencesn cbc ctr gcm \
    ccm ghash-generic hmac sha512_generic jitterentropy_rng drbg ansi_cprng seqiv echainiv; do
    modprobe -d "$tree" "$module" || echo "no module $module"
done
echo 0 >/proc/sys/kernel/printk
echo @@ready@@
# Without standard error on the console it shows no prompt.
exec sh 2>/dev/null

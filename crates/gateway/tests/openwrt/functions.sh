# shellcheck shell=dash
# What the tests use of OpenWrt's /lib/functions.sh and of procd, with the same behaviour: sections of
# /etc/config/leeway with callbacks, and a printed line for what procd would be told.

SECTIONS=

config_cb() { :; }
option_cb() { :; }
list_cb() { :; }

config_load() {
	# A file of UCI is a list of the commands config, option and list.
	# shellcheck source=/dev/null
	. "$UCI_CONFIG_DIR/$1"
	config_cb
}

config() {
	SECTION=${2:-cfg$((COUNT = COUNT + 1))}
	SECTIONS="$SECTIONS $SECTION"
	eval "VALUE_${SECTION}_TYPE=\$1"
	config_cb "$1" "$SECTION"
}

option() {
	eval "VALUE_${SECTION}_$1=\$2"
	option_cb "$1" "$2"
}

list() {
	local count
	eval "count=\$((\${COUNT_${SECTION}_$1:-0} + 1)); COUNT_${SECTION}_$1=\$count"
	eval "ITEM_${SECTION}_$1_$count=\$2"
	list_cb "$1" "$2"
}

config_get() {
	eval "$1=\${VALUE_$2_$3:-\$4}"
}

config_get_bool() {
	config_get "$@"
	eval "case \$$1 in 1 | on | true | yes | enabled) $1=1 ;; *) $1=0 ;; esac"
}

config_foreach() {
	local callback="$1" wanted="$2" section_here type_here
	shift 2
	for section_here in $SECTIONS; do
		config_get type_here "$section_here" TYPE
		[ "$type_here" != "$wanted" ] || "$callback" "$section_here" "$@"
	done
}

config_list_foreach() {
	local of="$1" what="$2" callback="$3" index=0 last item
	shift 3
	eval "last=\${COUNT_${of}_$what:-0}"
	while [ "$((index = index + 1))" -le "$last" ]; do
		eval "item=\$ITEM_${of}_${what}_$index"
		"$callback" "$item" "$@"
	done
}

procd_open_instance() { echo "instance $1"; }
procd_set_param() { echo "$*"; }
procd_append_param() { echo "$*"; }
procd_close_instance() { :; }
procd_add_reload_trigger() { echo "reload $1"; }

# Adds up the closing lines of the test binaries: "test result: ok. 3 passed; 0 failed; 1 ignored; ...", and that of
# pytest: "3 passed, 1 skipped in 2.10s". A binary that was begun and gave no such line was killed or ended itself: it counts
# as failed, and is named. all=1: an ignored test is a failure.

function ended() {
	if (running != "") {
		dead++
		print "without a result, killed or ended early: " running
	}
	running = ""
}

# Cargo, before each: "     Running tests/run.rs (target/debug/deps/run-8d1e)", "   Doc-tests leeway_sim".
/^ *(Running|Doc-tests) / {
	ended()
	running = $0
	sub(/^ */, "", running)
}

/^test result: / {
	binaries++
	passed += $4
	failed += $6
	ignored += $8
	running = ""
}

/^[0-9]+ (passed|failed|error|skipped).* in [0-9.]+s/ {
	binaries++
	for (i = 1; i < NF; i += 2) {
		if ($(i + 1) ~ /^passed/) passed += $i
		if ($(i + 1) ~ /^(failed|error)/) failed += $i
		if ($(i + 1) ~ /^skipped/) ignored += $i
	}
}

END {
	ended()
	if (ignored)
		print ignored " ignored" (all == 1 ? ", which LEEWAY_REQUIRE_ALL=1 forbids" : "")
	print (passed + 0) " passed, " (failed + 0) " failed" (dead ? ", " dead " without a result" : "")
	exit failed > 0 || dead > 0 || binaries == 0 || (ignored > 0 && all == 1)
}

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/shim/wire"
)

func TestEveryValueOfTheRunnersIsOverwrittenAndNothingElse(t *testing.T) {
	before := "PATH=/bin\x00AJ_SHIM_NONCE=0123456789abcdef\x00AJ_SHIM_NONCE=\x00MY_AJ_SHIM_NONCE=keep\x00" +
		"AJ_SHIM_NONCES=keep\x00AJ_SHIM_REPORT=/aj-out/report\x00AJ_SHIM_CGROUP=/aj/cgroup\x00" +
		"AJ_SHIM_MEMORY_BYTES=1=2\x00HOME=/x AJ_SHIM_NONCE=keep\x00\x00tail"
	after := "PATH=/bin\x00AJ_SHIM_NONCE=xxxxxxxxxxxxxxxx\x00AJ_SHIM_NONCE=\x00MY_AJ_SHIM_NONCE=keep\x00" +
		"AJ_SHIM_NONCES=keep\x00AJ_SHIM_REPORT=xxxxxxxxxxxxxx\x00AJ_SHIM_CGROUP=xxxxxxxxxx\x00" +
		"AJ_SHIM_MEMORY_BYTES=xxx\x00HOME=/x AJ_SHIM_NONCE=keep\x00\x00tail"
	block := []byte(before)
	if !scrub(block) || string(block) != after {
		t.Errorf("scrub made\n%q, want\n%q", block, after)
	}
	if scrub(block) {
		t.Error("a second scrub found something left to do")
	}
	unended := []byte("AJ_SHIM_NONCE=secret")
	if scrub(unended); strings.Contains(string(unended), "secret") {
		t.Errorf("an entry without its NUL stayed: %q", unended)
	}
}

func TestTheSubmissionGetsTheEnvironmentWithoutTheRunnersVariables(t *testing.T) {
	got := withoutSecrets([]string{
		"PATH=/bin", "AJ_SHIM_NONCE=n", "AJ_SHIM_REPORT=r", "AJ_SHIM_CGROUP=c", "AJ_SHIM_MEMORY_BYTES=1",
		"AJ_SHIM_OTHER=o", "LANG=C",
	})
	if want := []string{"PATH=/bin", "AJ_SHIM_OTHER=o", "LANG=C"}; !slices.Equal(got, want) {
		t.Errorf("withoutSecrets = %q, want %q", got, want)
	}
}

func TestThePlaceOfTheEnvironmentIsReadAfterTheLastParenthesis(t *testing.T) {
	fields := make([]string, 0, 50)
	for range 47 {
		fields = append(fields, "7")
	}
	tail := " S " + strings.Join(fields[1:], " ") + " 4096 8192 0\n" // field 3, then 4 to 49, then 50 and 51
	start, end, err := environmentRange([]byte("1 (a) S 1 (b)" + tail))
	if err != nil || start != 4096 || end != 8192 {
		t.Errorf("environmentRange = %d, %d, %v, want 4096, 8192", start, end, err)
	}
	for name, stat := range map[string]string{
		"nothing":            "",
		"no parenthesis":     "1 aj-shim S 1",
		"too few fields":     "1 (a) S 1 2 3",
		"hidden by a kernel": "1 (a)" + strings.Replace(tail, "4096 8192", "0 0", 1),
		"backwards":          "1 (a)" + strings.Replace(tail, "4096 8192", "8192 4096", 1),
		"absurdly large":     "1 (a)" + strings.Replace(tail, "4096 8192", "4096 99999999999", 1),
	} {
		if start, end, err := environmentRange([]byte(stat)); err == nil {
			t.Errorf("%s: environmentRange = %d, %d, want an error", name, start, end)
		}
	}
}

func TestABoxIsMadeWhenBothVariablesSaySoAndHalfAnOrderIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		cgroup, memory string
		limit          int64
		refused        bool
	}{
		"neither":               {"", "", 0, false},
		"both":                  {wire.CgroupPath, "4194304", 4194304, false},
		"a limit of zero":       {wire.CgroupPath, "0", 0, false},
		"a negative limit":      {wire.CgroupPath, "-1", 0, false},
		"no limit":              {wire.CgroupPath, "", 0, true},
		"no cgroup":             {"", "4194304", 0, true},
		"not a number":          {wire.CgroupPath, "4M", 0, true},
		"a number and a space":  {wire.CgroupPath, "4194304 ", 0, true},
		"more than an int64":    {wire.CgroupPath, "9223372036854775808", 0, true},
		"not a number, no path": {"", "x", 0, true},
	} {
		given := instructions{cgroup: test.cgroup, memory: test.memory}
		limit, err := given.memoryLimit()
		if limit != test.limit || (err != nil) != test.refused {
			t.Errorf("%s: limit %d, error %v; want %d, refused %v", name, limit, err, test.limit, test.refused)
		}
	}
}

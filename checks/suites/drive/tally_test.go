package main

import (
	"bytes"
	"strings"
	"testing"
)

func read(t *testing.T, lines ...string) (*tally, string) {
	t.Helper()
	got, out := newTally("s"), &bytes.Buffer{}
	if err := got.read(strings.NewReader(strings.Join(lines, "\n")+"\n"), out); err != nil {
		t.Fatal(err)
	}
	return got, out.String()
}

func TestTheTallyCountsEachTestOnce(t *testing.T) {
	got, _ := read(t,
		`{"Action":"start","Package":"p"}`,
		`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}`,
		`{"Action":"pass","Package":"p","Test":"TestB/sub"}`,
		`{"Action":"output","Package":"p","Test":"TestC","Output":"    x_test.go:3: needs a thing\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestC"}`,
		`{"Action":"pass","Package":"p"}`)
	if got.passed != 2 || got.failed != 0 || got.skipped != 1 {
		t.Fatalf("counted %d passed, %d failed, %d skipped", got.passed, got.failed, got.skipped)
	}
	if len(got.skips) != 1 || !strings.Contains(got.skips[0], "needs a thing") {
		t.Fatalf("the reason for skipping is lost: %q", got.skips)
	}
}

func TestAFailedTestIsCountedAndItsWordsAreShown(t *testing.T) {
	got, out := read(t,
		`{"Action":"start","Package":"p"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"it broke\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"fail","Package":"p"}`)
	if got.failed != 1 || !strings.Contains(out, "it broke") {
		t.Fatalf("failed %d, printed %q", got.failed, out)
	}
}

func TestAPackageThatDiesOrDoesNotBuildIsAFailure(t *testing.T) {
	for name, lines := range map[string][]string{
		"it died between tests":    {`{"Action":"start","Package":"p"}`, `{"Action":"pass","Package":"p","Test":"TestA"}`, `{"Action":"fail","Package":"p"}`},
		"the stream ended early":   {`{"Action":"start","Package":"p"}`, `{"Action":"pass","Package":"p","Test":"TestA"}`},
		"it does not build":        {`{"ImportPath":"p [p.test]","Action":"build-output","Output":"x"}`, `{"ImportPath":"p [p.test]","Action":"build-fail"}`, `{"Action":"start","Package":"p"}`, `{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`},
		"nothing was run":          {`{"Action":"start","Package":"p"}`, `{"Action":"pass","Package":"p"}`},
		"a package without a test": {`{"Action":"start","Package":"p"}`, `{"Action":"fail","Package":"p"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := read(t, lines...); got.failed != 1 {
				t.Fatalf("counted %d failures", got.failed)
			}
		})
	}
}

func TestInASoakEveryTestIsHeardOnceAndAtOnce(t *testing.T) {
	for end, aloud := range map[string]bool{"pass": true, "fail": true, "": true, "failed quietly": false} {
		got, out := newTally("s"), &bytes.Buffer{}
		got.aloud = aloud
		got.line(`{"Action":"output","Package":"p","Test":"TestA","Output":"a figure\n"}`, out)
		if heard := strings.Contains(out.String(), "a figure"); heard != aloud {
			t.Errorf("%q: heard before its end: %t", end, heard)
		}
		switch end {
		case "":
			got.unfinished("p", out)
		case "pass":
			got.line(`{"Action":"pass","Package":"p","Test":"TestA"}`, out)
		default:
			got.line(`{"Action":"fail","Package":"p","Test":"TestA"}`, out)
		}
		if n := strings.Count(out.String(), "a figure"); n != 1 {
			t.Errorf("%q: heard %d times", end, n)
		}
	}
}

func TestWhatTheOnlyTestSaidBeforeItsSuiteWasEndedIsShown(t *testing.T) {
	if got, out := read(t,
		`{"Action":"start","Package":"p"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"it hangs here\n"}`); got.failed != 1 || !strings.Contains(out, "it hangs here") {
		t.Fatalf("failed %d, printed %q", got.failed, out)
	}
}

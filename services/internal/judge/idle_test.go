package judge

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/evalhost/evalhost/langimages"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// idle tries a program that does nothing: 3 ms and 1 MiB on this fake, which stops a run for memory as the kernel would.
func idle(t *testing.T, f *fake, toolchain string, under ...sandbox.Limits) ([]Idle, error) {
	t.Helper()
	b, err := bench(t, f, open(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	tc, ok := langimages.Default().Resolve(toolchain)
	if !ok {
		t.Fatal(toolchain)
	}
	return b.TryIdle(t.Context(), tc, under)
}

func TestAProgramThatDoesNothingIsHeldToEachLimit(t *testing.T) {
	f := newFake(t)
	f.run = func(r sandbox.Run) (sandbox.RunOutcome, error) {
		o := ends()
		if *o.Peak > r.Limits.Memory {
			o.Stop = sandbox.Memory
		}
		return o, nil
	}
	got, err := idle(t, f, "c11-gcc", sandbox.Limits{Time: 3 * time.Millisecond, Memory: verdict.MiB},
		sandbox.Limits{Time: 2 * time.Millisecond, Memory: verdict.MiB}, sandbox.Limits{Time: time.Second, Memory: verdict.KiB})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []verdict.Reason
	for _, i := range got {
		reasons = append(reasons, i.Reason)
		if i.Time != 3*time.Millisecond || i.Memory == nil || (i.Note == "") != (i.Reason == verdict.NoReason) {
			t.Errorf("%+v", i)
		}
	}
	if want := []verdict.Reason{verdict.NoReason, verdict.TimeLimit, verdict.MemoryLimit}; !slices.Equal(reasons, want) {
		t.Errorf("%q, want %q", reasons, want)
	}
	if len(f.builds) != 1 || len(f.runs) != 3 || string(f.builds[0].Source) != silents["c"] {
		t.Errorf("%d builds and %d runs, want one build for all of them", len(f.builds), len(f.runs))
	}
}

func TestWhatTheMachineDoesToAProgramThatDoesNothingIsAnError(t *testing.T) {
	limits := sandbox.Limits{Time: time.Second, Memory: verdict.MiB}
	for name, change := range map[string]func(*fake){
		"the daemon is gone": func(f *fake) {
			f.run = func(sandbox.Run) (sandbox.RunOutcome, error) { return sandbox.RunOutcome{}, errors.New("gone") }
		},
		"nothing was measured": func(f *fake) {
			f.run = func(sandbox.Run) (sandbox.RunOutcome, error) {
				o := ends()
				o.CPU = nil
				return o, nil
			}
		},
		"our own program does not build": func(f *fake) {
			f.build = func(sandbox.Build) (sandbox.Built, error) {
				var built sandbox.Built
				built.Stop, built.ExitCode, built.Stderr = sandbox.OnItsOwn, 1, []byte("no")
				return built, nil
			}
		},
	} {
		f := newFake(t)
		change(f)
		if got, err := idle(t, f, "c11-gcc", limits); err == nil || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := idle(t, newFake(t), "pypy3", limits); err == nil || got != nil {
		t.Errorf("an image that was not proved: %+v, %v", got, err)
	}
}

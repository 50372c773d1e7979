package hostcheck

import (
	"context"
	"errors"
	"testing"
)

func TestWhatAnOperatorMayOverrideIsTheMeasuringAndNothingElse(t *testing.T) {
	hybrid := changed("/sys/fs/cgroup/cgroup.controllers", "\n")
	for name, test := range map[string]struct {
		change func(*testing.T, *Machine)
		plain  Standing
		told   Standing // with AllowUnmeasured
		causes int
	}{
		"a fit machine":         {func(*testing.T, *Machine) {}, Ready, Ready, 0},
		"warnings":              {changed(hugePagesFile, "[always] madvise never\n"), Ready, Ready, 0},
		"no unified hierarchy":  {hybrid, Refused, Unmeasured, 1},
		"cgroup version 1":      {docker(func(d *Docker) { d.CgroupVersion = "1" }), Refused, Unmeasured, 1},
		"a driver nobody knows": {docker(func(d *Docker) { d.CgroupDriver = "none" }), Refused, Unmeasured, 1},
		"a cgroup that cannot be made": {func(_ *testing.T, m *Machine) {
			m.Probe = func(context.Context, string) (string, error) { return "", errors.New("read-only file system") }
		}, Refused, Unmeasured, 1},
		"no seccomp":          {docker(func(d *Docker) { d.SecurityOptions = d.SecurityOptions[:1] }), Refused, Refused, 1},
		"no seccomp inside":   {insideSays("Seccomp:\t2", "Seccomp:\t0"), Refused, Refused, 1},
		"a writable root":     {insideSays("/ / ro,", "/ / rw,"), Refused, Refused, 1},
		"swap":                {changed(swaps, goodFiles[swaps]+"/dev/vda2 partition 1048572 0 -2\n"), Refused, Refused, 1},
		"no daemon":           {func(t *testing.T, m *Machine) { m.Socket = m.Root + "/nothing" }, Refused, Refused, 1},
		"an image of another": {image([]string{"layer 2 is b, want a"}, nil), Refused, Refused, 2},
		"measuring and swap": {func(t *testing.T, m *Machine) {
			hybrid(t, m)
			changed(swaps, goodFiles[swaps]+"/dev/vda2 partition 1048572 0 -2\n")(t, m)
		}, Refused, Refused, 2},
	} {
		t.Run(name, func(t *testing.T) {
			for allow, want := range map[bool]Standing{false: test.plain, true: test.told} {
				m := goodMachine(t)
				test.change(t, m)
				got, causes := Run(t.Context(), m).Standing(allow)
				if got != want || len(causes) != test.causes {
					t.Errorf("allowed %t: %v because of %v, want %v because of %d", allow, got, causes, want, test.causes)
				}
			}
		})
	}
}

func TestNothingAskedIsNoStanding(t *testing.T) {
	for _, allow := range []bool{false, true} {
		for _, r := range []Report{{}, {Fit: true}} {
			if got, _ := r.Standing(allow); got != Refused {
				t.Errorf("%+v, allowed %t: %v", r, allow, got)
			}
		}
	}
}

func TestEveryOverridableRequirementExists(t *testing.T) {
	known := map[string]bool{}
	for _, req := range requirements {
		known[req.id] = true
	}
	for _, id := range measuring {
		if !known[id] {
			t.Errorf("there is no requirement %s", id)
		}
	}
}

package cgroup

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// The fixtures are what a 6.12 kernel shows, cut to the lines that matter and with numbers of our own.
const (
	cpuStat = "usage_usec 813042\nuser_usec 700001\nsystem_usec 113041\nnice_usec 0\ncore_sched.force_idle_usec 0\n" +
		"nr_periods 9\nnr_throttled 2\nthrottled_usec 40000\nnr_bursts 0\nburst_usec 0\n"
	memoryEvents = "low 0\nhigh 0\nmax 38\noom 1\noom_kill 2\noom_group_kill 1\n"
	cpuPressure  = "some avg10=0.00 avg60=1.25 avg300=0.40 total=84531\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
)

func TestProcessorTimeIsReadInMicroseconds(t *testing.T) {
	got, err := ParseCPUStat([]byte(cpuStat))
	want := CPUStat{Usage: 813042 * time.Microsecond, User: 700001 * time.Microsecond, System: 113041 * time.Microsecond}
	if err != nil || got != want {
		t.Errorf("ParseCPUStat = %+v, %v; want %+v", got, err, want)
	}
}

func TestOutOfMemoryCountsAreToldApartByTheirWholeName(t *testing.T) {
	got, err := ParseMemoryEvents([]byte(memoryEvents))
	if err != nil || got != (MemoryEvents{OOM: 1, OOMKill: 2}) {
		t.Errorf("ParseMemoryEvents = %+v, %v", got, err)
	}
	// The order of the lines is the kernel's business.
	got, err = ParseMemoryEvents([]byte("oom_group_kill 9\noom_kill 5\noom 3\n"))
	if err != nil || got != (MemoryEvents{OOM: 3, OOMKill: 5}) {
		t.Errorf("in another order: %+v, %v", got, err)
	}
}

func TestPressureIsTheTotalOfTheLineSome(t *testing.T) {
	if got, err := ParsePressure([]byte(cpuPressure)); err != nil || got != 84531*time.Microsecond {
		t.Errorf("ParsePressure = %v, %v", got, err)
	}
}

func TestASizeIsOneNumber(t *testing.T) {
	for content, want := range map[string]verdict.Bytes{"0\n": 0, "299008\n": 299008, "17\n": 17, "9223372036854775807\n": 1<<63 - 1} {
		if got, err := ParseBytes([]byte(content)); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v", content, got, err)
		}
	}
}

func TestWhetherACgroupHoldsAProcess(t *testing.T) {
	for content, want := range map[string]bool{"populated 0\nfrozen 0\n": false, "populated 1\nfrozen 0\n": true} {
		if got, err := ParsePopulated([]byte(content)); err != nil || got != want {
			t.Errorf("ParsePopulated(%q) = %v, %v", content, got, err)
		}
	}
}

func TestWhatCannotBeUnderstoodIsAnErrorAndNeverZero(t *testing.T) {
	for name, err := range map[string]error{
		"no usage":              second(ParseCPUStat([]byte("user_usec 1\n"))),
		"usage with no number":  second(ParseCPUStat([]byte("usage_usec many\n"))),
		"a negative usage":      second(ParseCPUStat([]byte("usage_usec -1\n"))),
		"user without a number": second(ParseCPUStat([]byte("usage_usec 1\nuser_usec x\n"))),
		"an empty cpu.stat":     second(ParseCPUStat(nil)),
		"only oom":              second(ParseMemoryEvents([]byte("oom 1\n"))),
		"only oom_kill":         second(ParseMemoryEvents([]byte("oom_kill 1\noom_group_kill 1\n"))),
		"oom with two spaces":   second(ParseMemoryEvents([]byte("oom  1\noom_kill 1\n"))),
		"an empty events file":  second(ParseMemoryEvents(nil)),
		"the word max":          second(ParseBytes([]byte("max\n"))),
		"an empty size":         second(ParseBytes(nil)),
		"two sizes":             second(ParseBytes([]byte("1\n2\n"))),
		"a size too large":      second(ParseBytes([]byte("9223372036854775808\n"))),
		"only full":             second(ParsePressure([]byte("full avg10=0.00 total=7\n"))),
		"some without a total":  second(ParsePressure([]byte("some avg10=0.00\n"))),
		"a total of words":      second(ParsePressure([]byte("some total=much\n"))),
		"an empty pressure":     second(ParsePressure(nil)),
		"populated by two":      second(ParsePopulated([]byte("populated 2\n"))),
		"no word of processes":  second(ParsePopulated([]byte("frozen 0\n"))),
	} {
		if err == nil {
			t.Errorf("%s was understood", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestACounterBeyondADurationSaturates(t *testing.T) {
	got, err := ParseCPUStat([]byte("usage_usec 18446744073709551615\n"))
	if err != nil || got.Usage != 1<<63-1 {
		t.Errorf("ParseCPUStat = %v, %v", got.Usage, err)
	}
}

// write fills a directory with files.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAbsentFileIsAbsentAndABrokenOneAnError(t *testing.T) {
	dir := t.TempDir()
	r, err := Read(dir)
	if err != nil || r != (Reading{}) {
		t.Errorf("an empty cgroup reads as %+v, %v", r, err)
	}
	write(t, dir, map[string]string{
		"cpu.stat": cpuStat, "memory.events": memoryEvents, "memory.peak": "4096\n", "cpu.pressure": cpuPressure,
		"cgroup.events": "populated 1\nfrozen 0\n",
	})
	r, err = Read(dir)
	if err != nil || r.CPU == nil || r.Memory == nil || r.Peak == nil || r.Pressure == nil || r.Populated == nil {
		t.Fatalf("a whole cgroup reads as %+v, %v", r, err)
	}
	if *r.Peak != 4096 || !*r.Populated || r.Memory.OOMKill != 2 {
		t.Errorf("read %+v", r)
	}
	for _, name := range []string{"cpu.stat", "memory.events", "memory.peak", "cpu.pressure", "cgroup.events"} {
		broken := t.TempDir()
		write(t, broken, map[string]string{name: "nonsense\n"})
		if _, err := Read(broken); err == nil {
			t.Errorf("a broken %s was read", name)
		}
	}
}

func FuzzParsersNeverPanicAndNeverReadNegative(f *testing.F) {
	for _, s := range []string{cpuStat, memoryEvents, cpuPressure, "4096\n", "populated 1\n", "usage_usec ", "some total="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if s, err := ParseCPUStat(content); err == nil && (s.Usage < 0 || s.User < 0 || s.System < 0) {
			t.Errorf("read %+v", s)
		}
		if p, err := ParsePressure(content); err == nil && p < 0 {
			t.Errorf("read %v", p)
		}
		if b, err := ParseBytes(content); err == nil && b < 0 {
			t.Errorf("read %v", b)
		}
		_, _ = ParseMemoryEvents(content)
		_, _ = ParsePopulated(content)
	})
}

package config

import (
	"errors"
	"flag"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/langimages"
)

var update = flag.Bool("update", false, "write .env.example anew")

const exampleFile = "../../../.env.example"

// server is the one setting a daemon must have.
const server = "AJ_Server__BaseUrl=https://judge.example.org/api/v1"

// read reads a daemon's environment that must be accepted without a warning.
func read(t *testing.T, environment ...string) Settings {
	t.Helper()
	s, warnings, err := Read(Daemon, append([]string{server}, environment...), Facts{Hostname: "hall-2"})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Read(%q): %v, warnings %v", environment, err, warnings)
	}
	return s
}

// refused returns the refusals of a daemon's environment, which must be some.
func refused(t *testing.T, environment ...string) Refusals {
	t.Helper()
	s, _, err := Read(Daemon, append([]string{server}, environment...), Facts{})
	var refusals Refusals
	if !errors.As(err, &refusals) || len(refusals) == 0 {
		t.Fatalf("Read(%q) accepted it: %v", environment, err)
	}
	if s.BaseURL != "" || s.Lanes != 0 || s.Effective() != nil {
		t.Errorf("Read(%q) refused it and gave settings all the same: %+v", environment, s)
	}
	return refusals
}

func TestEveryKeyHasTheDefaultThatIsWrittenDown(t *testing.T) {
	s := read(t)
	s.entries = nil
	want := Settings{
		BaseURL: "https://judge.example.org/api/v1", Name: "hall-2", KeyPath: "/var/lib/evalhost/identity.key",
		ProblemTypes: []string{"standard-io@1"}, Lanes: 1, PollWait: 25 * time.Second, PollMin: time.Second,
		PollMax: 30 * time.Second, Heartbeat: time.Minute, LeaseRequest: 10 * time.Minute,
		CachePath: "/var/lib/evalhost/cache", CacheMax: 10 << 30, Scratch: "/var/lib/evalhost/scratch",
		CgroupRoot: "/sys/fs/cgroup", References: map[string]string{}, DockerHost: "unix:///var/run/docker.sock",
		Manifest: "/etc/evalhost/images.json", Shim: "/usr/lib/evalhost/aj-shim", BuildWallFactor: 1,
		HealthFile: "/run/evalhost-runner/health.json", LogLevel: slog.LevelInfo,
	}
	if s.Languages != langimages.Default() {
		t.Error("without a list of languages not everything is offered")
	}
	s.Languages = nil
	if diff := cmp.Diff(want, s, cmp.AllowUnexported(Settings{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestValuesAreReadAsTheirKindSays(t *testing.T) {
	for _, c := range []struct {
		entry string
		got   func(Settings) any
		want  any
	}{
		{"AJ_Server__BaseUrl= https://j.example/x/api/v2/// ", func(s Settings) any { return s.BaseURL }, "https://j.example/x/api/v2"},
		{"AJ_Runner__Name= Hall 2, left ", func(s Settings) any { return s.Name }, "Hall 2, left"},
		{"AJ_Runner__KeyPath=/k//a/../b", func(s Settings) any { return s.KeyPath }, "/k/b"},
		{"AJ_Runner__ProblemTypes= output-only@1 ,, standard-io@1,", func(s Settings) any { return s.ProblemTypes }, []string{"output-only@1", "standard-io@1"}},
		{"AJ_Runner__Tags= Finals ,hall-2,, FINALS", func(s Settings) any { return s.Tags }, []string{"finals", "hall-2"}},
		{"AJ_Runner__Tags=,", func(s Settings) any { return len(s.Tags) }, 0},
		{"AJ_Runner__TestsAtOnce=4", func(s Settings) any { return s.Lanes }, 4},
		{"AJ_Poll__WaitSeconds=0", func(s Settings) any { return s.PollWait }, time.Duration(0)},
		{"AJ_Poll__WaitSeconds=300", func(s Settings) any { return s.PollWait }, 300 * time.Second},
		{"AJ_Poll__MinSeconds=0", func(s Settings) any { return s.PollMin }, time.Duration(0)},
		{"AJ_Poll__MaxSeconds=007", func(s Settings) any { return s.PollMax }, 7 * time.Second},
		{"AJ_Heartbeat__Seconds=30", func(s Settings) any { return s.Heartbeat }, 30 * time.Second},
		{"AJ_Lease__RequestSeconds=3600", func(s Settings) any { return s.LeaseRequest }, time.Hour},
		{"AJ_Cache__Path=/c/", func(s Settings) any { return s.CachePath }, "/c"},
		{"AJ_Cache__MaxBytes=9223372036854775807", func(s Settings) any { return int64(s.CacheMax) }, int64(1<<63 - 1)},
		{"AJ_Work__Path=/w", func(s Settings) any { return s.Scratch }, "/w"},
		{"AJ_Work__HostPath=/var/lib/evalhost/scratch/", func(s Settings) any { return s.Scratch }, "/var/lib/evalhost/scratch"},
		{"AJ_Pipes__Path=/var/lib/evalhost/scratch", func(s Settings) any { return s.Scratch }, "/var/lib/evalhost/scratch"},
		{"AJ_Sandbox__CgroupRoot=/cg", func(s Settings) any { return s.CgroupRoot }, "/cg"},
		{"AJ_Sandbox__AllowUnmeasured=1", func(s Settings) any { return s.AllowUnmeasured }, true},
		{"AJ_Sandbox__Image__Gcc=r.example:5000/gcc@sha256:00", func(s Settings) any { return s.References["gcc"] }, "r.example:5000/gcc@sha256:00"},
		{"AJ_Sandbox__Image__Python=p:1", func(s Settings) any { return s.References["cpython"] }, "p:1"},
		{"DOCKER_HOST=unix:///d.sock", func(s Settings) any { return s.DockerHost }, "unix:///d.sock"},
		{"EVALHOST_CA_FILE=/ca.pem", func(s Settings) any { return s.CAFile }, "/ca.pem"},
		{"EVALHOST_MANIFEST=/m.json", func(s Settings) any { return s.Manifest }, "/m.json"},
		{"EVALHOST_LANGUAGES=python3, cpp", func(s Settings) any {
			_, c := s.Languages.Resolve("c11-gcc")
			_, p := s.Languages.Resolve("python3")
			return !c && p
		}, true},
		{"EVALHOST_SHIM_PATH=/shim", func(s Settings) any { return s.Shim }, "/shim"},
		{"EVALHOST_BUILD_WALL_FACTOR=2.5", func(s Settings) any { return s.BuildWallFactor }, 2.5},
		{"EVALHOST_METRICS=[::1]:9464", func(s Settings) any { return s.Metrics.String() }, "[::1]:9464"},
		{"EVALHOST_HEALTH_FILE=none", func(s Settings) any { return s.HealthFile }, ""},
		{"EVALHOST_HEALTH_FILE=/h.json", func(s Settings) any { return s.HealthFile }, "/h.json"},
		{"EVALHOST_LOG_LEVEL=debug", func(s Settings) any { return s.LogLevel }, slog.LevelDebug},
	} {
		environment := []string{c.entry}
		if !strings.HasPrefix(c.entry, "AJ_Server__BaseUrl") {
			environment = append(environment, server)
		}
		s, warnings, err := Read(Daemon, environment, Facts{})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, warnings %v", c.entry, err, warnings)
			continue
		}
		if diff := cmp.Diff(c.want, c.got(s)); diff != "" {
			t.Errorf("%s: %s", c.entry, diff)
		}
	}
}

func TestARefusalNamesTheKeyTheValueAndWhatWasExpected(t *testing.T) {
	for _, c := range []struct{ entry, expected string }{
		{"AJ_Server__BaseUrl=judge.example.org/api/v1", "https://judge.example.org/api/v1"},
		{"AJ_Server__BaseUrl=https://judge.example.org", "/api/"},
		{"AJ_Server__BaseUrl=https://judge.example.org/api", "/api/"},
		{"AJ_Server__BaseUrl=ftp://judge.example.org/api/v1", "http or https"},
		{"AJ_Runner__Name=" + strings.Repeat("x", 129), "128"},
		{"AJ_Runner__Name=a\tb", "control characters"},
		{"AJ_Runner__KeyPath=identity.key", "absolute"},
		{"AJ_Runner__ProblemTypes=,", "at least one"},
		{"AJ_Runner__Tags=" + strings.Repeat("x", 65), "64"},
		{"AJ_Runner__Tags=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "16"},
		{"AJ_Runner__TestsAtOnce=0", "1 to 1024"},
		{"AJ_Runner__TestsAtOnce=two", "1 to 1024"},
		{"AJ_Poll__WaitSeconds=301", "300"},
		{"AJ_Poll__WaitSeconds=-1", "digits only"},
		{"AJ_Poll__WaitSeconds=+1", "digits only"},
		{"AJ_Poll__WaitSeconds=25s", "digits only"},
		{"AJ_Poll__WaitSeconds=1_0", "digits only"},
		{"AJ_Poll__WaitSeconds=0x10", "digits only"},
		{"AJ_Poll__WaitSeconds=1 0", "digits only"},
		{"AJ_Poll__WaitSeconds=٣", "digits only"},
		{"AJ_Poll__MinSeconds=1.5", "86400"},
		{"AJ_Poll__MaxSeconds=86401", "86400"},
		{"AJ_Heartbeat__Seconds=minute", "digits only"},
		{"AJ_Lease__RequestSeconds=2147483648", "2147483647"},
		{"AJ_Lease__RequestSeconds=99999999999999999999", "2147483647"},
		{"AJ_Cache__Path=/", "not the root"},
		{"AJ_Cache__Path=cache", "absolute"},
		{"AJ_Cache__MaxBytes=10GiB", "10737418240"},
		{"AJ_Cache__MaxBytes=9223372036854775808", "bytes"},
		{"AJ_Work__Path=/run/evalhost/work", "noexec"},
		{"AJ_Work__Path=/var/lib/../../run", "noexec"},
		{"AJ_Sandbox__CgroupRoot=sys/fs/cgroup", "absolute"},
		{"AJ_Sandbox__Image__Clang=a b", "reference"},
		{"AJ_Sandbox__Image__Cpp=a b", "reference"},
		{"DOCKER_HOST=tcp://10.0.0.1:2375", "unix://"},
		{"EVALHOST_LANGUAGES=cobol", "cobol"},
		{"EVALHOST_LANGUAGES=,", "no language"},
		{"EVALHOST_SHIM=mine", "EVALHOST_SHIM_PATH"},
		{"EVALHOST_BUILD_WALL_FACTOR=0.5", "1 to 100"},
		{"EVALHOST_BUILD_WALL_FACTOR=NaN", "1 to 100"},
		{"EVALHOST_METRICS=9464", "loopback"},
		{"EVALHOST_METRICS=0.0.0.0:9464", "loopback"},
		{"EVALHOST_METRICS=192.0.2.1:9464", "loopback"},
		{"EVALHOST_METRICS=localhost:9464", "loopback"},
		{"EVALHOST_METRICS=127.0.0.1:0", "loopback"},
		{"EVALHOST_HEALTH_FILE=health.json", "none"},
		{"EVALHOST_LOG_LEVEL=WARN", "debug, info, warn or error"},
	} {
		key, value, _ := strings.Cut(c.entry, "=")
		environment := []string{c.entry}
		if key != "AJ_Server__BaseUrl" {
			environment = append(environment, server)
		}
		_, _, err := Read(Daemon, environment, Facts{})
		var refusals Refusals
		if !errors.As(err, &refusals) || len(refusals) != 1 {
			t.Errorf("%s: %v; want one refusal", c.entry, err)
			continue
		}
		r := refusals[0]
		if r.Key != key || r.Value != value || !strings.Contains(r.Why, c.expected) || !strings.HasPrefix(r.Error(), key+" is ") {
			t.Errorf("%s: refused as %q (key %q, value %q); want what contains %q", c.entry, r.Error(), r.Key, r.Value, c.expected)
		}
	}
}

func TestTheServerMustBeNamed(t *testing.T) {
	for _, environment := range [][]string{nil, {"AJ_Server__BaseUrl="}, {"AJ_Server__BaseUrl=  "}} {
		_, _, err := Read(Daemon, environment, Facts{})
		if err == nil || !strings.Contains(err.Error(), "AJ_Server__BaseUrl is not set") {
			t.Errorf("%q: %v", environment, err)
		}
	}
}

func TestEverythingThatIsWrongIsSaidAtOnceInTheOrderOfTheKeys(t *testing.T) {
	got := refused(t, "EVALHOST_ZZ=1", "AJ_Poll__WaitSeconds=x", "AJ_Cache__Volume=v")
	var keys []string
	for _, r := range got {
		keys = append(keys, r.Key)
	}
	if want := []string{"AJ_Cache__Volume", "AJ_Poll__WaitSeconds", "EVALHOST_ZZ"}; !slices.Equal(keys, want) {
		t.Errorf("refused %q, want %q", keys, want)
	}
	if lines := strings.Count(got.Error(), "\n"); lines != 2 {
		t.Errorf("%d lines, want one each:\n%v", lines+1, got)
	}
}

func TestAnUnknownKeyIsRefusedEvenWhenItIsEmpty(t *testing.T) {
	for entry, hint := range map[string]string{
		"AJ_Poll__WaitSecond=25":            "",
		"AJ_Nothing=":                       "",
		"EVALHOST_METRIC=127.0.0.1:1":       "",
		"AJ_poll__waitseconds=25":           "did you mean AJ_Poll__WaitSeconds?",
		"aj_poll__WaitSeconds=25":           "did you mean AJ_Poll__WaitSeconds?",
		"AJ_Server_BaseUrl=https://x/api/1": "did you mean AJ_Server__BaseUrl?",
		"Evalhost_Metrics=127.0.0.1:1":      "did you mean EVALHOST_METRICS?",
		"AJ_Runner__Token=hunter2":          "",
	} {
		got := refused(t, entry).Error()
		key, value, _ := strings.Cut(entry, "=")
		if !strings.Contains(got, key+" is no setting") || !strings.Contains(got, hint) || hint == "" && strings.Contains(got, "did you mean") {
			t.Errorf("%s: %s", entry, got)
		}
		if value != "" && strings.Contains(got, value) {
			t.Errorf("%s: the value of an unknown key, which may be anything, is shown: %s", entry, got)
		}
	}
}

func TestWhatMeansNothingHereIsRefusedAndItsReplacementNamed(t *testing.T) {
	for _, key := range sortedKeys(removed) {
		got := refused(t, key+"=something")
		if got[0].Key != key || !strings.Contains(got[0].Why, "set AJ_") {
			t.Errorf("%s: %v", key, got)
		}
		read(t, key+"=")
	}
	if got := refused(t, "EVALHOST_SCRATCH=/s").Error(); !strings.Contains(got, "set AJ_Work__Path") {
		t.Error(got)
	}
}

func TestAnotherViewOfAPathIsAcceptedOnlyIfItIsTheSame(t *testing.T) {
	for _, key := range sortedKeys(mirrors) {
		environment := []string{"AJ_Cache__Path=/c", "AJ_Work__Path=/w"}
		same := map[string]string{"AJ_Cache__Path": "/c", "AJ_Work__Path": "/w"}[mirrors[key]]
		read(t, append(environment, key+"="+same+"/")...)
		read(t, append(environment, key+"=")...)
		for _, other := range []string{"/elsewhere", "w", "/"} {
			got := refused(t, append(environment, key+"="+other)...)
			if got[0].Key != key || got[0].Value != other || !strings.Contains(got[0].Why, same) {
				t.Errorf("%s=%s: %v", key, other, got)
			}
		}
	}
}

func TestAnEarlierNameIsReadWithAWarningAndThePresentOneWins(t *testing.T) {
	aliases := 0
	for _, row := range table() {
		for _, old := range row.old {
			aliases++
			s, warnings, err := Read(Daemon, []string{server, old + "=first:1"}, Facts{})
			if err != nil || len(warnings) != 1 || warnings[0].Key != old || !strings.Contains(warnings[0].Text, row.name) {
				t.Errorf("%s: %v, warnings %v", old, err, warnings)
			}
			for _, entry := range s.Effective() {
				if entry.Key == row.name && entry.From != Origin("environment, as "+old) {
					t.Errorf("%s is said to come from %q", row.name, entry.From)
				}
			}
		}
	}
	if aliases != 2 {
		t.Errorf("%d earlier names, want 2", aliases)
	}
	s, warnings, err := Read(Daemon, []string{server, "AJ_Sandbox__Image__Cpp=old:1", "AJ_Sandbox__Image__Gcc=new:1"}, Facts{})
	if err != nil || s.References["gcc"] != "new:1" || len(warnings) != 1 || !strings.Contains(warnings[0].Text, "wins") {
		t.Errorf("both names: %v, %v, warnings %v", s.References, err, warnings)
	}
}

func TestASwitchIsOnWithAnyValueAndSaysSoWhereItLooksOff(t *testing.T) {
	for value, warns := range map[string]bool{"1": false, "true": false, "yes": false, "0": true, "false": true, "FALSE": true, "no": true, "off": true} {
		s, warnings, err := Read(Daemon, []string{server, "AJ_Sandbox__AllowUnmeasured=" + value}, Facts{})
		if err != nil || !s.AllowUnmeasured {
			t.Errorf("%s: %v, %v", value, s.AllowUnmeasured, err)
		}
		if got := len(warnings) == 1 && strings.Contains(warnings[0].Text, "ON"); got != warns {
			t.Errorf("%s: warnings %v", value, warnings)
		}
	}
	if read(t, "AJ_Sandbox__AllowUnmeasured= ").AllowUnmeasured {
		t.Error("an empty value switches it on")
	}
}

func TestWhatIsProbablyNotMeantIsWarnedAbout(t *testing.T) {
	for entry, want := range map[string]func(Settings) bool{
		"AJ_Heartbeat__Seconds=0":            func(s Settings) bool { return s.Heartbeat == time.Second },
		"AJ_Heartbeat__Seconds=120":          func(s Settings) bool { return s.Heartbeat == 2*time.Minute },
		"AJ_Lease__RequestSeconds=7200":      func(s Settings) bool { return s.LeaseRequest == 2*time.Hour },
		"AJ_Lease__RequestSeconds=0":         func(s Settings) bool { return s.LeaseRequest == 0 },
		"AJ_Poll__MinSeconds=60":             func(s Settings) bool { return s.PollMin == time.Minute && s.PollMax == time.Minute },
		"AJ_Cache__MaxBytes=0":               func(s Settings) bool { return s.CacheMax == 0 },
		"AJ_Runner__ProblemTypes= uva@1,x ,": func(s Settings) bool { return slices.Equal(s.ProblemTypes, []string{"uva@1", "x"}) },
		"EVALHOST_SHIM=image":                func(s Settings) bool { return s.Shim == "" },
	} {
		s, warnings, err := Read(Daemon, []string{server, entry}, Facts{})
		if err != nil || len(warnings) != 1 || !want(s) {
			t.Errorf("%s: %v, warnings %v, %+v", entry, err, warnings, s)
		}
	}
}

func TestPlacesThatWouldDeleteEachOtherAreRefused(t *testing.T) {
	for _, c := range []struct {
		key         string
		environment []string
	}{
		{"AJ_Work__Path", []string{"AJ_Cache__Path=/d", "AJ_Work__Path=/d"}},
		{"AJ_Work__Path", []string{"AJ_Cache__Path=/d", "AJ_Work__Path=/d/work"}},
		{"AJ_Cache__Path", []string{"AJ_Cache__Path=/d/cache", "AJ_Work__Path=/d"}},
		{"AJ_Runner__KeyPath", []string{"AJ_Runner__KeyPath=/var/lib/evalhost/cache/identity.key"}},
		{"AJ_Runner__KeyPath", []string{"AJ_Runner__KeyPath=/var/lib/evalhost/scratch/identity.key"}},
		{"EVALHOST_MANIFEST", []string{"EVALHOST_MANIFEST=/var/lib/evalhost/scratch/images.json"}},
	} {
		if got := refused(t, c.environment...); len(got) != 1 || got[0].Key != c.key {
			t.Errorf("%q: %v", c.environment, got)
		}
	}
	read(t, "AJ_Cache__Path=/data", "AJ_Work__Path=/data2")
}

func TestVariablesOfTestHarnessesArePassedOver(t *testing.T) {
	read(t, "AJ_TEST_SERVER=http://localhost:8080/api/v1", "AJ_ADMIN_TOKEN=secret", "AJ_DOCKER_NETWORK=n", "PATH=/bin", "AJ=1", "HOSTNAME=x")
	refused(t, "AJ_ADMINISTRATOR=1")
}

func TestTheNameIsTheHostsUnlessOneIsSet(t *testing.T) {
	for _, c := range []struct {
		host, set, want string
		from            Origin
	}{
		{"hall-2", "", "hall-2", FromHost},
		{"hall-2", "left", "left", FromEnvironment},
		{" ", "", "evalhost-runner", FromDefault},
	} {
		s, _, err := Read(Daemon, []string{server, "AJ_Runner__Name=" + c.set}, Facts{Hostname: c.host})
		if err != nil || s.Name != c.want || s.Effective()[1] != (Entry{"AJ_Runner__Name", c.want, c.from}) {
			t.Errorf("%+v: %q, %v, %v", c, s.Name, err, s.Effective()[1])
		}
	}
}

func TestTheCommandTakesItsOwnKeysAndPassesTheDaemonsOver(t *testing.T) {
	s, warnings, err := Read(Command, []string{
		"AJ_Server__BaseUrl=nonsense", "AJ_Poll__WaitSeconds=x", "AJ_Cache__Volume=v", "EVALHOST_LANGUAGES=cobol", "AJ_Work__Path=/other",
		"AJ_Sandbox__AllowUnmeasured=1", "AJ_Whatever=1", "EVALHOST_SCRATCH=/s", "AJ_Sandbox__CgroupRoot=/c", "HTTP_PROXY=::",
	}, Facts{ShimBeside: "/here/aj-shim"})
	if err != nil || len(warnings) > 0 || s.Scratch != "/s" || s.CgroupRoot != "/c" || s.AllowUnmeasured || s.Shim != "/here/aj-shim" ||
		s.LogLevel != slog.LevelWarn || s.BaseURL != "" {
		t.Errorf("%+v, %v, warnings %v", s, err, warnings)
	}
	for _, entry := range []string{"EVALHOST_SCRACH=/s", "AJ_Sandbox__Cgrouproot=/c", "AJ_Sandbox__Image__Rust=x", "EVALHOST_SCRATCH=s"} {
		if _, _, err := Read(Command, []string{entry}, Facts{}); err == nil {
			t.Errorf("%s is accepted", entry)
		}
	}
}

func TestNoPasswordInsideOfAnAddressIsEverShown(t *testing.T) {
	environment := []string{server, "HTTPS_PROXY=bob:hunter2@proxy.example:3128", "no_proxy=localhost"}
	s, warnings, err := Read(Daemon, environment, Facts{})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := s.WriteEffective(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "proxy.example:3128") || strings.Contains(text.String(), "hunter2") || len(warnings) > 0 {
		t.Errorf("%s%v", text.String(), warnings)
	}
	for _, entry := range []string{
		"AJ_Server__BaseUrl=https://bob:hunter2@judge.example.org/api/v1", "AJ_Server__BaseUrl=https://bob:hunter2/@judge/api/v1",
		"HTTPS_PROXY=gopher://bob:hunter2@proxy", "DOCKER_HOST=tcp://bob:hunter2@host", "DOCKER_HOST=tcp://bob:a hunter2@host", "AJ_Server__BaseUrl=https://bob:hunter2 @judge.example.org/api/v1",
		"AJ_Server__BaseUrl=bob:hunter2@judge.example.org/api/v1",
	} {
		_, warnings, err := Read(Daemon, []string{"AJ_Poll__MinSeconds=x", entry}, Facts{})
		if err == nil || strings.Contains(err.Error(), "hunter2") || len(warnings) > 0 {
			t.Errorf("%s: %v %v", entry, err, warnings)
		}
	}
	if got := refused(t, "HTTPS_PROXY=gopher://bob:hunter2@proxy").Error(); !strings.Contains(got, "HTTPS_PROXY") || strings.Contains(got, "hunter2") {
		t.Error(got)
	}
}

func TestWhatTookEffectIsPrintedWithWhereItCameFrom(t *testing.T) {
	s := read(t, "AJ_Poll__WaitSeconds=50", "EVALHOST_LANGUAGES=python3")
	var text strings.Builder
	if err := s.WriteEffective(&text); err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"AJ_Server__BaseUrl https://judge.example.org/api/v1 (environment)", "AJ_Runner__Name hall-2 (the host's name)",
		"AJ_Runner__Tags - (default)", "AJ_Poll__WaitSeconds 50 (environment)", "AJ_Poll__MaxSeconds 30 (default)",
		"EVALHOST_LANGUAGES python3 (environment)", "EVALHOST_HEALTH_FILE /run/evalhost-runner/health.json (default)",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("does not say %q:\n%s", want, text.String())
		}
	}
	for _, row := range table() {
		if row.readers&Daemon != 0 && !strings.Contains(text.String(), row.name) {
			t.Errorf("%s is not printed", row.name)
		}
	}
}

func TestTheExampleIsTheTable(t *testing.T) {
	var want strings.Builder
	if err := WriteExample(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(exampleFile, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf(".env.example is not what the code reads; go test ./services/internal/config -update\n%s", diff)
	}
	// Every key that is read is in it, and every key in it is accepted with the value that stands there.
	var environment []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(got)) {
		entry := strings.TrimPrefix(strings.TrimSpace(line), "# ")
		if key, _, ok := strings.Cut(entry, "="); ok && !strings.Contains(key, " ") {
			environment = append(environment, entry)
			seen[key] = true
		}
	}
	for _, row := range table() {
		if row.readers&Daemon != 0 && !seen[row.name] {
			t.Errorf("%s is missing", row.name)
		}
		for _, old := range row.old {
			if !strings.Contains(string(got), old) {
				t.Errorf("%s is missing", old)
			}
		}
	}
	if _, _, err := Read(Daemon, environment, Facts{}); err != nil {
		t.Errorf("what stands in the example is refused: %v", err)
	}
}

func TestTheHelpNamesEveryKeyOfItsProgram(t *testing.T) {
	var text strings.Builder
	if err := WriteHelp(&text, Command); err != nil {
		t.Fatal(err)
	}
	for _, row := range table() {
		if got := strings.Contains(text.String(), "\n  "+row.name+"\n") || strings.HasPrefix(text.String(), "  "+row.name+"\n"); got != (row.readers&Command != 0) {
			t.Errorf("%s in the command's help: %v", row.name, got)
		}
	}
}

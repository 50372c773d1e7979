package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evalhost/evalhost/services/internal/hostcheck"
	"github.com/evalhost/evalhost/services/internal/runner"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

var update = flag.Bool("update", false, "write the golden files anew")

// clock stands at a moment in a zone that is not UTC.
func clock() time.Time {
	return time.Date(2026, 11, 30, 10, 0, 0, 0, time.FixedZone("here", 3600))
}

// busy is a Metrics that has seen one of everything.
func busy(t *testing.T, file string) *Metrics {
	t.Helper()
	m := New(Options{Version: "1.2.3", Lanes: 4, CacheMax: 10 * verdict.GiB, HealthFile: file, Now: clock})
	m.HostChecked(hostcheck.Report{Fit: true, Requirements: []hostcheck.Result{{ID: "gone", Status: hostcheck.Failed}}})
	m.HostChecked(hostcheck.Report{Fit: false, Requirements: []hostcheck.Result{
		{ID: "swap", Status: hostcheck.OK}, {ID: "governor", Status: hostcheck.Warning}, {ID: "clock", Status: hostcheck.Failed},
	}})
	m.Admitted(true)
	m.Changed(runner.Idle, "idle")
	m.Changed(runner.Judging, "judging job 7: test 1a, 1 of 3")
	m.Ended(runner.Work{Kind: runner.Job, Ending: runner.Reported, Verdict: verdict.Accepted, Took: 3 * time.Second})
	m.Ended(runner.Work{Kind: runner.Job, Ending: runner.Reported, Verdict: verdict.AnswerWrong, Took: 70 * time.Second})
	m.Ended(runner.Work{Kind: runner.Job, Ending: runner.Failed, Failure: runner.BadPackage, Took: time.Second})
	m.Ended(runner.Work{Kind: runner.Trial, Ending: runner.Reported, Took: time.Second})
	m.Ended(runner.Work{Kind: runner.Trial, Ending: runner.Failed, Failure: runner.BadMachine, Took: time.Second})
	m.Ended(runner.Work{Kind: runner.Job, Ending: runner.Released, Took: time.Second})
	m.RenewalEnded(runner.Renewed)
	m.RenewalEnded(runner.RenewalMissed)
	for i, p := range sandbox.Phases {
		m.PhaseTook(p, time.Duration(i+1)*100*time.Millisecond)
	}
	m.LanesBusy(3)
	m.LanesBusy(2)
	m.Leaked(5)
	m.RemovalFailed()
	m.Hit()
	m.Downloaded(1000, time.Second)
	m.Prepared("extracted", 2*time.Second)
	m.Damaged("anything")
	m.Evicted(2, 3000)
	m.Sized(7, 12345)
	return m
}

// scrape is what Prometheus reads.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if answer.Code != 200 {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// ours drops the figures of the process itself, which differ every time.
func ours(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "evalhost_") || strings.HasPrefix(line, "# HELP evalhost_") || strings.HasPrefix(line, "# TYPE evalhost_") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: look at the difference, then -update\n%s", path, diff)
	}
}

func TestTheFiguresAreTheseAtTheStart(t *testing.T) {
	golden(t, "start.txt", ours(scrape(t, New(Options{Version: "1.2.3", Lanes: 1, CacheMax: verdict.GiB, Now: clock}))))
}

func TestTheFiguresAreTheseAfterOneOfEverything(t *testing.T) {
	text := scrape(t, busy(t, ""))
	golden(t, "busy.txt", ours(text))
	for _, name := range []string{"process_open_fds", "process_resident_memory_bytes", "go_goroutines"} {
		if !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("%s is not told", name)
		}
	}
}

func TestNoSeriesOfTheLastHostCheckStays(t *testing.T) {
	if strings.Contains(scrape(t, busy(t, "")), `requirement="gone"`) {
		t.Error("a requirement of an earlier check is still told")
	}
}

// families are the names of everything that is told.
func families(t *testing.T) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(scrape(t, busy(t, ""))) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			names = append(names, strings.Fields(rest)[0])
		}
	}
	return names
}

func TestEveryQueryOfTheDashboardNamesFiguresThatAreTold(t *testing.T) {
	content, err := os.ReadFile("../../../docs/grafana/evalhost.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title       string
			Description string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	told := families(t)
	text := scrape(t, busy(t, ""))
	name := regexp.MustCompile(`\b(evalhost|process|go)_[a-z_]+`)
	label := regexp.MustCompile(`([a-z_]+)=~?"([^"]*)"`)
	queries := 0
	for _, panel := range dashboard.Panels {
		if panel.Title == "" || panel.Description == "" || len(panel.Targets) == 0 {
			t.Errorf("the panel %q has no title, no description or no query", panel.Title)
		}
		for _, target := range panel.Targets {
			queries++
			found := name.FindAllString(target.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%s: %q names no figure", panel.Title, target.Expr)
			}
			for _, n := range found {
				family := n
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					family = strings.TrimSuffix(family, suffix)
				}
				if !slices.Contains(told, n) && !slices.Contains(told, family) {
					t.Errorf("%s: %s is not told", panel.Title, n)
				}
			}
			for _, match := range label.FindAllStringSubmatch(target.Expr, -1) {
				if !strings.Contains(match[2], "$") && !strings.Contains(match[2], "|") && !strings.Contains(text, match[1]+`="`+match[2]+`"`) {
					t.Errorf("%s: nothing has the label %s", panel.Title, match[0])
				}
			}
		}
	}
	if queries < 10 {
		t.Errorf("only %d queries were found", queries)
	}
}

func TestTheOperatorsPageNamesEveryFigure(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range families(t) {
		if strings.HasPrefix(name, "evalhost_") && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/operator.md does not say what %s is", name)
		}
	}
	for _, name := range regexp.MustCompile("`(evalhost_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains(families(t), name[1]) {
			t.Errorf("docs/operator.md names %s, which is not told", name[1])
		}
	}
}

func TestFiguresAreServedOnLoopbackOnlyAndUntilTheStop(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "192.0.2.1:9464", "[::]:0"} {
		if l, err := Listen(t.Context(), netip.MustParseAddrPort(address)); err == nil {
			_ = l.Close()
			t.Errorf("%s is listened at", address)
		}
	}
	listener, err := Listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), netip.MustParseAddrPort(listener.Addr().String())); err == nil || !strings.Contains(err.Error(), "EVALHOST_METRICS") {
		t.Errorf("an address that is taken: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- busy(t, "").Serve(ctx, listener) }()
	for path, want := range map[string]int{"/metrics": 200, "/": 404, "/debug/pprof/": 404} {
		answer, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != want || want == 200 && !bytes.Contains(body, []byte(`evalhost_jobs_total{verdict="Accepted"} 1`)) {
			t.Errorf("%s: status %d, %v", path, answer.StatusCode, err)
		}
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end with its context")
	}
	if _, err := http.Get("http://" + listener.Addr().String() + "/metrics"); err == nil {
		t.Error("served after the stop")
	}
}

func TestTheHealthFileSaysWhatScriptsNeed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	path := filepath.Join(dir, "health.json")
	m := busy(t, path)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got Health
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	at := clock().UTC()
	want := Health{
		State: "judging", Status: "judging job 7: test 1a, 1 of 3", Since: at, Admitted: true, Fit: false, FailedRequirements: []string{"clock"},
		Judged: 2, InfrastructureFailures: 2, FailuresInARow: 1, LastEnded: &at, Version: "1.2.3", PID: os.Getpid(), Started: at,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(path)
	names, _ := os.ReadDir(dir)
	if err != nil || info.Mode().Perm() != 0o644 || len(names) != 1 {
		t.Errorf("mode %v, %d files, %v", info.Mode(), len(names), err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	m.Changed(runner.Stopping, "stopping")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a Runner that ended left its health file: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestWhoReadsTheHealthFileReadsAllOfOneMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "health.json")
	m := New(Options{HealthFile: path})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			m.Changed(runner.Judging, strings.Repeat("x", 1+i*20))
		}
	}()
	reads := 0
	for {
		content, err := os.ReadFile(path)
		var h Health
		if err != nil || json.Unmarshal(content, &h) != nil || h.State == "" {
			t.Fatalf("read %d bytes that are no health: %v", len(content), err)
		}
		reads++
		select {
		case <-done:
			t.Logf("%d reads", reads)
			return
		default:
		}
	}
}

func TestAHealthFileThatCannotBeWrittenIsSaidOnceAndStopsNothing(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	blocked := filepath.Join(dir, "file")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	m := New(Options{HealthFile: filepath.Join(blocked, "health.json"), Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 5 {
		m.Changed(runner.Idle, "idle")
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("said %d times: %s", n, log.String())
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	m.Changed(runner.Idle, "idle")
	if _, err := os.Stat(filepath.Join(blocked, "health.json")); err != nil {
		t.Errorf("not written when it could be: %v", err)
	}
}

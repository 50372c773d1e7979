package runner_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/refserver"
	"github.com/evalhost/evalhost/services/internal/runner"
)

// checked is a package whose checker gives half of the points.
func checked(t *testing.T) []byte {
	return zipped(t, adder, map[string]string{
		"config.yml": "type: standard-io@1\nlimits: { timeMs: 2000, memoryBytes: 67108864 }\ngroups: [ { group: 1, points: 40 }, { group: 2, points: 60 } ]\n" +
			"checker: { source: check.c, language: c11-gcc }\n", "check.c": "CHECKS\n",
	})
}

// Another Runner may have the package for as long as somebody judges by hand on the machine that it waits for. Waiting for it is a
// wait, which the watchdog is fed in (decisions 22), and no step that hangs.
func TestWaitingForAnotherRunnersPackageIsNoStepThatHangs(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		const taken = 45 * time.Minute
		c := r.court(func(m *runner.MachineConfig, _ *runner.Options) { m.Packages.(*shelf).taken = taken })
		began := time.Now()
		j := r.final(r.hand("", checked(t), "main.c", "c11-gcc", "ADDS", "").ID, 5*time.Hour)
		if j.State != refserver.Completed || j.Result.Verdict != "Partial" || j.Deliveries != 1 {
			t.Fatalf("ended as %s with %+v after %d deliveries", j.State, j.Result, j.Deliveries)
		}
		if took := time.Since(began); took < 2*taken {
			t.Fatalf("it took %v, so nothing was waited for and this shows nothing", took)
		}
		if silent := c.silences(began, 11*time.Second); silent != nil {
			t.Errorf("the watchdog was not fed: %v", silent)
		}
		c.stops()
		// What was waited in is said again when the wait is over, with its own time.
		prefix := "judging job " + j.ID + ": "
		for _, step := range []string{"unpacking the package", "preparing the problem"} {
			want := []string{prefix + step, prefix + "waiting for another Runner that prepares the package", prefix + step}
			if !contains(c.statuses, want) {
				t.Errorf("%q was not said in %q", want, c.statuses)
			}
		}
	})
}

// contains says whether a part of a list is another one.
func contains(list, part []string) bool {
	for i := range list {
		if len(list)-i >= len(part) && slices.Equal(list[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// While a submission is compiled the Status says so, and not what was done before the machine was free (decisions 22).
func TestTheStatusDuringACompilationSaysThatItCompiles(t *testing.T) {
	inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
		c := r.court(func(m *runner.MachineConfig, _ *runner.Options) {
			b := m.Box.(*box)
			b.busy, b.building = time.Hour, 3*time.Minute
		})
		j := r.hand("", zipped(t, adder), "main.c", "c11-gcc", "ADDS", "")
		for after, want := range map[time.Duration]string{30 * time.Minute: "waiting for the machine", 62 * time.Minute: "compiling"} {
			time.AfterFunc(after, func() {
				if _, text := c.State(); text != "judging job "+j.ID+": "+want {
					t.Errorf("after %v the Status is %q", after, text)
				}
			})
		}
		began := time.Now()
		r.accepted(j.ID, 2*time.Hour)
		if took := time.Since(began); took < 63*time.Minute {
			t.Errorf("it took %v, so this shows nothing", took)
		}
		if silent := c.silences(began, 11*time.Second); silent != nil {
			t.Errorf("the watchdog was not fed: %v", silent)
		}
	})
}

// However a Server withholds a file, each of its answers alive, the download gives up before the watchdog does: the job goes back by
// its lease and is judged later.
func TestADownloadThatDripsIsNoStepThatHangs(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, first bool) (drips string){
		"refusals": func(w http.ResponseWriter, _ bool) string {
			w.WriteHeader(http.StatusServiceUnavailable)
			return strings.Repeat(" ", 1000)
		},
		"what is here already": func(w http.ResponseWriter, first bool) string {
			if first {
				w.Header().Set("Content-Length", "1000")
				_, _ = io.WriteString(w, strings.Repeat("x", 25))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			return strings.Repeat("x", 1000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, refserver.Options{}, func(t *testing.T, r *rig) {
				c := r.court()
				first := true
				r.stand(func(w http.ResponseWriter, q *http.Request, server http.Handler) {
					if q.Method != http.MethodGet || !strings.Contains(q.URL.Path, "/runner/files/") {
						server.ServeHTTP(w, q)
						return
					}
					was := first
					first = false
					for _, b := range []byte(answer(w, was)) {
						_, _ = w.Write([]byte{b})
						_ = http.NewResponseController(w).Flush()
						select {
						case <-time.After(50 * time.Second):
						case <-q.Context().Done():
							return
						}
					}
				})
				began := time.Now()
				j := r.hand("", zipped(t, adder), "main.c", "c11-gcc", "ADDS", "")
				r.eventually("the delivery has ended", time.Hour, func() bool { return c.endings() != nil })
				if silent := c.silences(began, 11*time.Second); silent != nil || !slices.Equal(c.endings(), []runner.Ending{runner.Abandoned}) {
					t.Errorf("the watchdog was not fed: %v; ended as %v", silent, c.endings())
				}
				r.leave()
				r.accepted(j.ID, time.Hour)
			})
		})
	}
}

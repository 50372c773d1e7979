// Package metrics tells what a Runner does: figures for Prometheus on a loopback address, off by default, and a file of a few
// words for scripts of the host.
//
//	m := metrics.New(metrics.Options{Version: …, Lanes: …, CacheMax: …, HealthFile: …})
//	defer m.Close()                    // removes the file
//	go m.Serve(ctx, settings.Metrics)  // until ctx ends
//
// One Metrics is the Observer of the runner, of the sandbox and of the cache. Its methods return at once. Every series that
// can be known beforehand is there from the start at zero, so that a query for a rate finds it. No label holds anything a
// participant or the Server wrote: their number is bounded by this program.
package metrics

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/evalhost/evalhost/services/internal/cache"
	"github.com/evalhost/evalhost/services/internal/hostcheck"
	"github.com/evalhost/evalhost/services/internal/runner"
	"github.com/evalhost/evalhost/services/internal/sandbox"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

var (
	_ runner.Observer  = (*Metrics)(nil)
	_ sandbox.Observer = (*Metrics)(nil)
	_ cache.Observer   = (*Metrics)(nil)
)

// Options of New.
type Options struct {
	Version string
	// Lanes is how many tests can be judged at once; CacheMax how much the cache keeps.
	Lanes    int
	CacheMax verdict.Bytes
	// HealthFile is kept up to date; empty for none.
	HealthFile string
	// Log is told when the health file cannot be written; nil for nobody.
	Log *slog.Logger
	// Now replaces the clock in tests; nil is time.Now.
	Now func() time.Time
}

// Metrics counts. It is safe for use by several goroutines.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	now      func() time.Time

	state      *prometheus.GaugeVec
	admitted   prometheus.Gauge
	jobs       *prometheus.CounterVec
	failures   *prometheus.CounterVec
	work       *prometheus.CounterVec
	workTime   *prometheus.HistogramVec
	renewals   *prometheus.CounterVec
	leases     prometheus.Gauge
	phases     *prometheus.HistogramVec
	lanes      prometheus.Gauge
	leaks      prometheus.Counter
	unremoved  prometheus.Counter
	hits       prometheus.Counter
	downloads  prometheus.Counter
	downloaded prometheus.Counter
	download   prometheus.Histogram
	prepared   *prometheus.HistogramVec
	damaged    prometheus.Counter
	evicted    prometheus.Counter
	evictedB   prometheus.Counter
	entries    prometheus.Gauge
	bytes      prometheus.Gauge
	fit        prometheus.Gauge
	checks     *prometheus.GaugeVec
	checked    prometheus.Gauge

	mu     sync.Mutex
	file   string
	health Health
	failed bool // the health file could not be written last time
}

// verdicts are all words for a submission.
var verdicts = []verdict.Verdict{
	verdict.Accepted, verdict.Partial, verdict.AnswerWrong, verdict.TimeLimitExceeded, verdict.MemoryLimitExceeded,
	verdict.OutputLimitExceeded, verdict.RunFailed, verdict.CompilationFailed, verdict.PolicyViolated,
}

var (
	phaseBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	workBuckets  = []float64{.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
)

// New makes a Metrics with every series at zero, and writes the health file for the first time.
func New(o Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), log: o.Log, now: o.Now, file: o.HealthFile}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.now == nil {
		m.now = time.Now
	}
	m.define(o)
	m.zero()
	m.health = Health{
		State: runner.Starting.String(), Version: o.Version, PID: os.Getpid(), Started: m.now(), Since: m.now(),
		FailedRequirements: []string{},
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write()
	return m
}

func (m *Metrics) define(o Options) {
	m.registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics()))
	name := func(s string) string { return "evalhost_" + s }
	gauge := func(n, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name(n), Help: help})
		m.registry.MustRegister(g)
		return g
	}
	gauges := func(n, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name(n), Help: help}, labels)
		m.registry.MustRegister(g)
		return g
	}
	counter := func(n, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name(n), Help: help})
		m.registry.MustRegister(c)
		return c
	}
	counters := func(n, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name(n), Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histograms := func(n, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name(n), Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(h)
		return h
	}

	gauges("build_info", "The version of this Runner; always 1.", "version").WithLabelValues(o.Version).Set(1)
	m.state = gauges("state", "What the Runner is doing: 1 for the state it is in.", "state")
	m.admitted = gauge("admitted", "1 when the Server has admitted this Runner.")
	m.jobs = counters("jobs_total", "Jobs that were answered with a verdict.", "verdict")
	m.failures = counters("infrastructure_failures_total", "Jobs and trials that were answered with an infrastructure failure.", "reason")
	m.work = counters("work_total", "Jobs and trials by what became of them.", "kind", "ending")
	m.workTime = histograms("work_seconds", "From the handing out of a job or trial to its end.", workBuckets, "kind")
	m.renewals = counters("lease_renewals_total", "Renewals of leases by how they went.", "result")
	m.leases = gauge("leases_held", "Leases this Runner holds: 1 while it works on something.")
	m.phases = histograms("container_phase_seconds", "How long each phase of a container's life takes.", phaseBuckets, "phase")
	gauge("lanes", "How many tests can be judged at once.").Set(float64(o.Lanes))
	m.lanes = gauge("lanes_busy", "Lanes in which a submission runs.")
	m.leaks = counter("sandbox_leaks_total", "Containers and cgroups that sweeps found left behind.")
	m.unremoved = counter("sandbox_removal_failures_total", "Containers or cgroups that could not be removed when they were done.")
	m.hits = counter("cache_hits_total", "Packages that were in the cache when they were wanted.")
	m.downloads = counter("cache_downloads_total", "Packages that were downloaded.")
	m.downloaded = counter("cache_download_bytes_total", "Bytes of packages that were downloaded.")
	m.download = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name("cache_download_seconds"), Help: "How long a package takes to download.", Buckets: phaseBuckets,
	})
	m.registry.MustRegister(m.download)
	m.prepared = histograms("cache_prepare_seconds", "How long it takes to unpack a package or to build its judging program.", phaseBuckets, "product")
	m.damaged = counter("cache_damaged_total", "Things in the cache that were not what they should be and were made anew.")
	m.evicted = counter("cache_evictions_total", "Packages that were evicted.")
	m.evictedB = counter("cache_evicted_bytes_total", "Bytes that were evicted.")
	m.entries = gauge("cache_entries", "Packages in the cache, as of the last look.")
	m.bytes = gauge("cache_bytes", "Bytes in the cache, as of the last look.")
	gauge("cache_max_bytes", "Bytes the cache keeps.").Set(float64(o.CacheMax))
	m.fit = gauge("host_fit", "1 when nothing failed in the last check of the host.")
	m.checks = gauges("host_check", "The last check of the host: 1 for the status each requirement has.", "requirement", "status")
	m.checked = gauge("host_check_timestamp_seconds", "When the host was last checked, in seconds since 1970.")
}

// zero makes every series that is known beforehand.
func (m *Metrics) zero() {
	for _, s := range runner.States {
		m.state.WithLabelValues(s.String()).Set(0)
	}
	m.state.WithLabelValues(runner.Starting.String()).Set(1)
	for _, v := range verdicts {
		m.jobs.WithLabelValues(string(v))
	}
	for _, k := range runner.FailureKinds {
		m.failures.WithLabelValues(k.String())
	}
	for _, k := range []runner.Kind{runner.Job, runner.Trial} {
		m.workTime.WithLabelValues(k.String())
		for _, e := range runner.Endings {
			m.work.WithLabelValues(k.String(), e.String())
		}
	}
	for _, r := range []runner.Renewal{runner.Renewed, runner.RenewalMissed, runner.RenewalRefused} {
		m.renewals.WithLabelValues(r.String())
	}
	for _, p := range sandbox.Phases {
		m.phases.WithLabelValues(p.String())
	}
	for _, p := range []string{"extracted", "build"} {
		m.prepared.WithLabelValues(p)
	}
}

// HostChecked is told what a check of the host said.
func (m *Metrics) HostChecked(r hostcheck.Report) {
	m.checks.Reset()
	failed := []string{}
	for _, result := range r.Requirements {
		m.checks.WithLabelValues(result.ID, string(result.Status)).Set(1)
		if result.Status == hostcheck.Failed {
			failed = append(failed, result.ID)
		}
	}
	m.fit.Set(truth(r.Fit))
	m.checked.Set(float64(m.now().Unix()))
	m.update(func(h *Health) { h.Fit, h.FailedRequirements = r.Fit, failed })
}

// Changed is told a new state.
func (m *Metrics) Changed(s runner.State, text string) {
	for _, other := range runner.States {
		m.state.WithLabelValues(other.String()).Set(truth(other == s))
	}
	m.leases.Set(truth(s == runner.Judging || s == runner.Reporting))
	m.update(func(h *Health) {
		if h.State != s.String() {
			h.State, h.Since = s.String(), m.now()
		}
		h.Status = text
	})
}

// Ended is told what became of a piece of work.
func (m *Metrics) Ended(w runner.Work) {
	m.work.WithLabelValues(w.Kind.String(), w.Ending.String()).Inc()
	m.workTime.WithLabelValues(w.Kind.String()).Observe(w.Took.Seconds())
	if w.Kind == runner.Job && w.Ending == runner.Reported {
		m.jobs.WithLabelValues(string(w.Verdict)).Inc()
	}
	if w.Ending == runner.Failed {
		m.failures.WithLabelValues(w.Failure.String()).Inc()
	}
	m.update(func(h *Health) {
		now := m.now()
		h.LastEnded = &now
		switch {
		case w.Ending == runner.Failed:
			h.InfrastructureFailures++
			h.FailuresInARow++
		case w.Ending == runner.Reported:
			h.FailuresInARow = 0
			if w.Kind == runner.Job {
				h.Judged++
			}
		}
	})
}

// RenewalEnded is told how a renewal went.
func (m *Metrics) RenewalEnded(r runner.Renewal) { m.renewals.WithLabelValues(r.String()).Inc() }

// Admitted is told whether the Server has admitted this Runner.
func (m *Metrics) Admitted(yes bool) {
	m.admitted.Set(truth(yes))
	m.update(func(h *Health) { h.Admitted = yes })
}

// PhaseTook is told how long a phase of a container took.
func (m *Metrics) PhaseTook(p sandbox.Phase, took time.Duration) {
	m.phases.WithLabelValues(p.String()).Observe(took.Seconds())
}

// LanesBusy is told in how many lanes a submission runs.
func (m *Metrics) LanesBusy(n int) { m.lanes.Set(float64(n)) }

// RemovalFailed is told of a container that could not be removed.
func (m *Metrics) RemovalFailed() { m.unremoved.Inc() }

// Leaked is told what a sweep found.
func (m *Metrics) Leaked(n int) { m.leaks.Add(float64(n)) }

// Hit is told of a package that was in the cache.
func (m *Metrics) Hit() { m.hits.Inc() }

// Downloaded is told of a package that was downloaded.
func (m *Metrics) Downloaded(size verdict.Bytes, took time.Duration) {
	m.downloads.Inc()
	m.downloaded.Add(float64(size))
	m.download.Observe(took.Seconds())
}

// Prepared is told of a product that was made.
func (m *Metrics) Prepared(product string, took time.Duration) {
	m.prepared.WithLabelValues(product).Observe(took.Seconds())
}

// Damaged is told of something in the cache that had to be made anew. What it was is in the log.
func (m *Metrics) Damaged(string) { m.damaged.Inc() }

// Evicted is told of packages that were evicted.
func (m *Metrics) Evicted(entries int, size verdict.Bytes) {
	m.evicted.Add(float64(entries))
	m.evictedB.Add(float64(size))
}

// Sized is told how much is in the cache.
func (m *Metrics) Sized(entries int, size verdict.Bytes) {
	m.entries.Set(float64(entries))
	m.bytes.Set(float64(size))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

//go:build !guest

package sandbox

import (
	"math"
	"testing"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

const ms = time.Millisecond

func TestTheDeadlinesOfAJudgedRunFollowFromItsLimit(t *testing.T) {
	for limit, want := range map[time.Duration]Deadlines{
		100 * ms:   {Window: 4400 * ms, Ceiling: 2100 * ms, Cap: 10500 * ms},
		300 * ms:   {Window: 5200 * ms, Ceiling: 2300 * ms, Cap: 11500 * ms},
		1000 * ms:  {Window: 8000 * ms, Ceiling: 3000 * ms, Cap: 15000 * ms},
		2000 * ms:  {Window: 12000 * ms, Ceiling: 4000 * ms, Cap: 20000 * ms},
		10000 * ms: {Window: 44000 * ms, Ceiling: 12000 * ms, Cap: 60000 * ms},
	} {
		if got := DeadlinesFor(limit); got != want {
			t.Errorf("DeadlinesFor(%v) = %+v, want %+v", limit, got, want)
		}
	}
}

func TestTheCapIsNeverBeforeTheWindow(t *testing.T) {
	for _, limit := range []time.Duration{1, ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms, time.Second, 5 * time.Second, time.Minute, time.Hour} {
		if d := DeadlinesFor(limit); d.Cap-d.Window != limit+6*time.Second {
			t.Errorf("limit %v: cap %v, window %v, want limit + 6 s between them", limit, d.Cap, d.Window)
		}
	}
}

func TestDeadlinesOfAbsurdLimitsSaturate(t *testing.T) {
	for _, limit := range []time.Duration{math.MaxInt64, math.MaxInt64 / 2, math.MaxInt64 / 4, math.MaxInt64 / 5} {
		d := DeadlinesFor(limit)
		if d.Window <= 0 || d.Ceiling < limit || d.Cap < d.Ceiling {
			t.Errorf("DeadlinesFor(%d) = %+v", limit, d)
		}
	}
}

// script feeds a watch one look every tick and returns when and why it stopped, or zero after the last look.
type script struct {
	limit time.Duration // zero for an untimed step of 60 s
	tick  time.Duration
	upTo  time.Duration
	cpu   func(elapsed time.Duration) *time.Duration
	psi   func(elapsed time.Duration) *time.Duration
	moved func(elapsed time.Duration) verdict.Bytes
}

func (s script) run() (time.Duration, Stop) {
	w := watch{Deadlines: untimed(60 * time.Second)}
	if s.limit > 0 {
		w.Deadlines = DeadlinesFor(s.limit)
	}
	for at := s.tick; at <= s.upTo; at += s.tick {
		l := look{elapsed: at}
		if s.cpu != nil {
			l.cpu = s.cpu(at)
		}
		if s.psi != nil {
			l.pressure = s.psi(at)
		}
		if s.moved != nil {
			l.moved = s.moved(at)
		}
		if stop := w.see(l); stop != 0 {
			return at, stop
		}
	}
	return 0, 0
}

// per gives a reading that grows by part of every second.
func per(second time.Duration) func(time.Duration) *time.Duration {
	return func(at time.Duration) *time.Duration {
		return ptr(time.Duration(float64(at) * float64(second) / float64(time.Second)))
	}
}

func always(d time.Duration) func(time.Duration) *time.Duration {
	return func(time.Duration) *time.Duration { return ptr(d) }
}

// until grows by part of every second up to a moment, and stands still from then on.
func until(second, moment time.Duration) func(time.Duration) *time.Duration {
	grow := per(second)
	return func(at time.Duration) *time.Duration { return grow(min(at, moment)) }
}

func TestWhenARunIsStoppedAndWhy(t *testing.T) {
	const tick = lookEvery
	for name, test := range map[string]struct {
		script
		at   time.Duration
		stop Stop
	}{
		"slow progress is never reaped within ten seconds": {
			script{limit: 200 * ms, tick: tick, upTo: 10 * time.Second, cpu: per(20 * ms)}, 0, 0,
		},
		"starved but runnable is not reaped by the window": {
			script{limit: 200 * ms, tick: tick, upTo: 10500 * ms, cpu: always(50 * ms), psi: per(time.Second)}, 0, 0,
		},
		"starved for ever ends at the cap": {
			script{limit: 200 * ms, tick: tick, upTo: time.Minute, cpu: always(50 * ms), psi: per(time.Second)}, 11000 * ms, Overall,
		},
		"asleep is reaped by the window although there is pressure information": {
			script{limit: 200 * ms, tick: tick, upTo: time.Minute, cpu: always(50 * ms), psi: always(3 * time.Second)}, 5250 * ms, WallClock,
		},
		"asleep from the start without pressure information": {
			script{limit: 200 * ms, tick: tick, upTo: time.Minute, cpu: always(1 * ms)}, 5250 * ms, WallClock,
		},
		"the window begins again after progress": {
			// progress until 3 s, then the 4.8 s window
			script{limit: 200 * ms, tick: tick, upTo: time.Minute, cpu: until(30*ms, 3*time.Second)}, 8000 * ms, WallClock,
		},
		"one millisecond past the ceiling stops": {
			script{limit: 200 * ms, tick: tick, upTo: tick, cpu: always(2201 * ms)}, tick, TimeLimit,
		},
		"exactly the ceiling does not": {
			script{limit: 200 * ms, tick: tick, upTo: tick, cpu: always(2200 * ms)}, 0, 0,
		},
		"180 ms and the start of a container are far from the ceiling": {
			script{limit: 200 * ms, tick: tick, upTo: tick, cpu: always(180*ms + 619*ms)}, 0, 0,
		},
		"nothing ever ran": {
			script{limit: 200 * ms, tick: tick, upTo: time.Minute, cpu: always(0)}, 4750*ms + tick, NeverStarted,
		},
		"nothing could ever be read": {
			script{limit: 200 * ms, tick: tick, upTo: time.Minute}, 4750*ms + tick, NeverStarted,
		},
		"a byte moved is a start": {
			script{limit: 200 * ms, tick: tick, upTo: time.Minute, cpu: always(0), moved: func(time.Duration) verdict.Bytes { return 1 }},
			5250 * ms, WallClock,
		},
		"talking is working": {
			script{
				limit: 200 * ms, tick: tick, upTo: 10 * time.Second, cpu: always(5 * ms),
				moved: func(at time.Duration) verdict.Bytes { return verdict.Bytes(at / time.Second) },
			}, 0, 0,
		},
		"a conversation gone silent is reaped": {
			script{
				limit: 200 * ms, tick: tick, upTo: time.Minute, cpu: always(5 * ms),
				moved: func(at time.Duration) verdict.Bytes { return verdict.Bytes(min(at, 2*time.Second) / time.Second) },
			}, 7000*ms - tick + tick, WallClock,
		},
		"a trickle ends at the cap": {
			script{
				limit: 200 * ms, tick: tick, upTo: time.Minute, cpu: always(5 * ms),
				moved: func(at time.Duration) verdict.Bytes { return verdict.Bytes(at / tick) },
			}, 11000 * ms, Overall,
		},
		"an untimed step is a plain wall clock": {
			script{tick: tick, upTo: 2 * time.Minute}, time.Minute, WallClock,
		},
		"and its processor time is no progress": {
			script{tick: tick, upTo: 2 * time.Minute, cpu: per(time.Second)}, time.Minute, WallClock,
		},
		"nor are its bytes": {
			script{tick: tick, upTo: 2 * time.Minute, moved: func(at time.Duration) verdict.Bytes { return verdict.Bytes(at) }}, time.Minute, WallClock,
		},
		"a Runner that looked late does not stretch the window": {
			script{limit: 200 * ms, tick: 5 * time.Second, upTo: time.Minute, cpu: always(1 * ms)}, 10 * time.Second, WallClock,
		},
	} {
		t.Run(name, func(t *testing.T) {
			at, stop := test.run()
			if at != test.at || stop != test.stop {
				t.Errorf("stopped at %v as %v, want %v as %v", at, stop, test.at, test.stop)
			}
		})
	}
}

func TestTheFirstLookOnlyRemembersThePressure(t *testing.T) {
	w := watch{Deadlines: DeadlinesFor(200 * ms)}
	w.see(look{elapsed: lookEvery, cpu: ptr(ms), pressure: ptr(time.Hour)})
	w.see(look{elapsed: 2 * lookEvery, cpu: ptr(ms), pressure: ptr(time.Hour)})
	if w.idle != lookEvery {
		t.Errorf("the window stands at %v, want %v: a total that was there before the run is no pressure of it", w.idle, lookEvery)
	}
}

func TestAPressureThatCouldNotBeReadOnceIsComparedWithTheLastOne(t *testing.T) {
	w := watch{Deadlines: DeadlinesFor(200 * ms)}
	w.see(look{elapsed: lookEvery, cpu: ptr(ms), pressure: ptr(time.Second)})
	w.see(look{elapsed: 2 * lookEvery, cpu: ptr(ms)})
	if w.idle != lookEvery {
		t.Errorf("without a reading the window stands at %v, want %v", w.idle, lookEvery)
	}
	w.see(look{elapsed: 3 * lookEvery, cpu: ptr(ms), pressure: ptr(2 * time.Second)})
	if w.idle != lookEvery {
		t.Errorf("with pressure the window went on to %v", w.idle)
	}
}

func TestAClockThatStandsStillOrGoesBackCountsNothing(t *testing.T) {
	w := watch{Deadlines: DeadlinesFor(200 * ms)}
	for _, at := range []time.Duration{lookEvery, lookEvery, 0, lookEvery} {
		w.see(look{elapsed: at})
	}
	if w.idle != lookEvery {
		t.Errorf("the window stands at %v, want %v", w.idle, lookEvery)
	}
}

// boundaryLimits are limits from 1 ms to 60 s.
var boundaryLimits = []time.Duration{
	1 * ms, 2 * ms, 10 * ms, 50 * ms, 100 * ms, 200 * ms, 300 * ms, 500 * ms, 999 * ms, 1000 * ms, 1001 * ms, 2500 * ms, 5000 * ms,
	10 * time.Second, 30 * time.Second, 59999 * ms, 60 * time.Second,
}

// Every deadline just before, at and just after its boundary, for every limit (spec/sandbox.md 5.1). The looks come at the
// nominal tick until the one that matters, which comes exactly when it is wanted.
func TestEveryDeadlineAtItsBoundaryForEveryLimit(t *testing.T) {
	// drive brings a watch to a moment with ordinary looks and then takes one look at exactly that moment.
	drive := func(d Deadlines, until time.Duration, at func(elapsed time.Duration) look) Stop {
		w := watch{Deadlines: d}
		for now := lookEvery; now < until; now += lookEvery {
			if stop := w.see(at(now)); stop != 0 {
				return -stop // too early
			}
		}
		return w.see(at(until))
	}
	asleep := func(now time.Duration) look { return look{elapsed: now, cpu: ptr(time.Microsecond)} }
	never := func(now time.Duration) look { return look{elapsed: now, cpu: ptr(time.Duration(0))} }
	starved := func(now time.Duration) look {
		return look{elapsed: now, cpu: ptr(time.Microsecond), pressure: ptr(now)}
	}
	talking := func(now time.Duration) look {
		return look{elapsed: now, cpu: ptr(time.Microsecond), moved: verdict.Bytes(now)}
	}
	for _, limit := range boundaryLimits {
		d := DeadlinesFor(limit)
		// The first look sees progress and begins the window anew.
		window := lookEvery + d.Window
		for _, c := range []struct {
			name  string
			until time.Duration
			at    func(time.Duration) look
			want  Stop
		}{
			{"asleep, a nanosecond before the window", window - 1, asleep, 0},
			{"asleep, at the window", window, asleep, WallClock},
			{"never started, a nanosecond before the window", d.Window - 1, never, 0},
			{"never started, at the window", d.Window, never, NeverStarted},
			{"starved, a nanosecond before the cap", d.Cap - 1, starved, 0},
			{"starved, at the cap", d.Cap, starved, Overall},
			{"talking, a nanosecond before the cap", d.Cap - 1, talking, 0},
			{"talking, at the cap", d.Cap, talking, Overall},
		} {
			if got := drive(d, c.until, c.at); got != c.want {
				t.Errorf("limit %v: %s: %v, want %v", limit, c.name, got, c.want)
			}
		}
		for cpu, want := range map[time.Duration]Stop{d.Ceiling - 1: 0, d.Ceiling: 0, d.Ceiling + 1: TimeLimit} {
			w := watch{Deadlines: d}
			if got := w.see(look{elapsed: lookEvery, cpu: ptr(cpu)}); got != want {
				t.Errorf("limit %v: %v of processor time under a ceiling of %v: %v, want %v", limit, cpu, d.Ceiling, got, want)
			}
		}
		// What is charged, and not what stopped the run, is compared with the limit; the two meet nowhere.
		if d.Ceiling <= limit || d.Window <= limit || d.Cap <= d.Window {
			t.Errorf("limit %v: %+v", limit, d)
		}
	}
}

package problem

import (
	"fmt"
	"time"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// The format sets no upper bound on a limit. Larger ones are read as these, which are beyond anything a host has and
// leave room: no deadline of spec/judging.md 4.6, the longest being 5 (L + 2 s), and no sum with a memory limit can
// overflow (docs/decisions/0023).
const (
	// MaxTime is about 31 years.
	MaxTime time.Duration = 1_000_000_000 * time.Second
	// MaxMemory is an exbibyte.
	MaxMemory verdict.Bytes = 1 << 60
)

// Limits is what one run may use: processor time and memory. Both are positive.
type Limits struct {
	Time   time.Duration
	Memory verdict.Bytes
}

// PartialLimits replaces what it sets. A zero member sets nothing, since no limit is ever zero.
type PartialLimits struct {
	Time   time.Duration
	Memory verdict.Bytes
}

// over returns the limits after this step.
func (p PartialLimits) over(l Limits) Limits {
	if p.Time != 0 {
		l.Time = p.Time
	}
	if p.Memory != 0 {
		l.Memory = p.Memory
	}
	return l
}

// ShownLimits is the pair that the details document shows: the package's limits with the override of the family and then
// that of the toolchain, before any group's own (spec/judging.md 2.3, 8.1).
func (c *Config) ShownLimits(family, toolchain string) Limits {
	limits := c.OverrideLimits[family].over(c.Base)
	return c.OverrideLimits[toolchain].over(limits)
}

// Limits is what a test of this group is held to, in a toolchain of a family: the shown pair, and then the group's own
// limits, time and memory each by itself. The last step wins and nothing multiplies (spec/judging.md 2.3).
func (c *Config) Limits(family, toolchain string, group uint32) Limits {
	limits := c.ShownLimits(family, toolchain)
	if g, ok := c.Group(group); ok {
		limits = g.Limits.over(limits)
	}
	return limits
}

// LimitSettings names the settings of config.yml that decide the two limits of a test, such as
// "overrideLimits.python.timeMs" or "group 2: limits.timeMs".
func (c *Config) LimitSettings(family, toolchain string, group uint32) (time, memory string) {
	time, memory = "limits.timeMs", "limits.memoryBytes"
	step := func(at string, p PartialLimits) {
		if p.Time != 0 {
			time = at + "timeMs"
		}
		if p.Memory != 0 {
			memory = at + "memoryBytes"
		}
	}
	step("overrideLimits."+family+".", c.OverrideLimits[family])
	step("overrideLimits."+toolchain+".", c.OverrideLimits[toolchain])
	if g, ok := c.Group(group); ok {
		step(fmt.Sprintf("group %d: limits.", group), g.Limits)
	}
	return time, memory
}

func millis(value uint64) time.Duration {
	if value >= uint64(MaxTime/time.Millisecond) {
		return MaxTime
	}
	return time.Duration(value) * time.Millisecond
}

func bytesOf(value uint64) verdict.Bytes {
	if value >= uint64(MaxMemory) {
		return MaxMemory
	}
	return verdict.Bytes(value)
}

package guest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Variant is one kind of host that the disk can be booted as.
type Variant struct {
	Name string
	// About says what is special about it.
	About string
	// Append is added to the kernel's command line.
	Append []string
	// Processors is how many the machine has, from 1 to MaxProcessors.
	Processors int
	// Keep says that a snapshot of the ready host is kept; others boot every time.
	Keep bool
}

// DefaultVariant is the host as nixos/host declares it.
const DefaultVariant = "systemd"

var variants = map[string]Variant{
	"systemd":       {About: "the host as nixos/host declares it", Keep: true},
	"cgroupfs":      {About: "Docker with the cgroupfs driver", Keep: true},
	"systemd-runc":  {About: "runc is the default runtime"},
	"cgroupfs-runc": {About: "the cgroupfs driver, runc is the default runtime"},
	"legacy": {
		About: "cgroup v1",
		Append: []string{
			"systemd.unified_cgroup_hierarchy=0", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1", "systemd.legacy_systemd_cgroup_controller=1",
		},
	},
	"hybrid": {
		About:  "cgroup v1 for the controllers, v2 for systemd",
		Append: []string{"systemd.unified_cgroup_hierarchy=0", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"},
	},
	"unconfined": {About: "Docker without its seccomp profile"},
	"docker20": {
		About: "Docker 20.10 from Debian 12, with the image of CPython and those for tests",
		Append: []string{
			"systemd.mask=docker.service", "systemd.mask=docker.socket", "systemd.mask=containerd.service", "systemd.wants=docker20.service",
		},
	},
	"nopids": {About: "the kernel has no pids controller", Append: []string{"cgroup_disable=pids"}},
}

// VariantNames lists the variants.
func VariantNames() []string { return slices.Sorted(maps.Keys(variants)) }

// FindVariant returns a variant by name; the empty name is the default.
func FindVariant(name string) (Variant, error) {
	if name == "" {
		name = DefaultVariant
	}
	v, ok := variants[name]
	if !ok {
		return Variant{}, fmt.Errorf("there is no variant %q; there are %s", name, strings.Join(VariantNames(), ", "))
	}
	v.Name = name
	v.Processors = MaxProcessors
	return v, nil
}

// MaxProcessors is how many processors a guest has where nobody asks for fewer.
const MaxProcessors = 2

// find returns the variant that the options ask for, with as many processors as they ask for.
func (o Options) find() (Variant, error) {
	v, err := FindVariant(o.Variant)
	if err != nil {
		return Variant{}, err
	}
	if o.Processors < 0 || o.Processors > MaxProcessors {
		return Variant{}, fmt.Errorf("a guest has 1 to %d processors, not %d", MaxProcessors, o.Processors)
	}
	if o.Processors > 0 {
		v.Processors = o.Processors
	}
	return v, nil
}

// kernelCommandLine is what the guest boots with. PSI is off in Debian's kernel unless asked for; the mitigations protect
// nothing here and cost an emulated processor dearly.
func (v Variant) kernelCommandLine() string {
	words := []string{
		"console=hvc0", "earlyprintk=serial,ttyS0,115200", "root=/dev/vda", "rw", "psi=1", "mitigations=off", "transparent_hugepage=madvise", "loglevel=5", "random.trust_cpu=on", "lsm=landlock,lockdown,yama,integrity,apparmor",
		"systemd.tty.term.console=dumb", "systemd.firstboot=no", "evalhost.variant=" + v.Name,
	}
	return strings.Join(append(words, v.Append...), " ")
}

package main

import (
	"strings"
	"testing"
)

// mounts is a container's mountinfo with the given root of the home at /aj/cgroup, as a systemd host shows it.
func mounts(home string) string {
	return strings.Join([]string{
		`612 512 0:52 / / ro,relatime - overlay overlay ro,lowerdir=/l,upperdir=/u,workdir=/w`,
		`613 612 0:55 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw`,
		`617 616 0:29 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate,memory_recursiveprot`,
		`620 612 0:29 ` + home + ` /aj/cgroup rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup2 rw,nsdelegate`,
		`621 612 254:1 /scratch/run /aj-out rw,relatime - ext4 /dev/vda1 rw`,
		``,
	}, "\n")
}

const (
	testSlice = "/evalhost.slice/evalhost-abc_r0123.slice"
	testScope = "docker-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.scope"
)

func TestTheContainersOwnCgroupIsFoundUnderEveryRuntimeAndDriver(t *testing.T) {
	for name, test := range map[string]struct {
		mountinfo, cgroups, mounted string
		dir, name                   string
	}{
		"runc with systemd": {
			mounts(testSlice), "0::" + testSlice + "/" + testScope + "\n", "/aj/cgroup",
			"/aj/cgroup/" + testScope, testSlice + "/" + testScope,
		},
		"crun with systemd, which adds a subgroup": {
			mounts(testSlice), "0::" + testSlice + "/" + testScope + "/container\n", "/aj/cgroup",
			"/aj/cgroup/" + testScope + "/container", testSlice + "/" + testScope + "/container",
		},
		"crun with systemd, the annotation naming none": {
			mounts(testSlice), "0::" + testSlice + "/" + testScope + "\n", "/aj/cgroup",
			"/aj/cgroup/" + testScope, testSlice + "/" + testScope,
		},
		"cgroupfs": {
			mounts("/evalhost/run-1"), "0::/evalhost/run-1/9f86d081\n", "/aj/cgroup",
			"/aj/cgroup/9f86d081", "/evalhost/run-1/9f86d081",
		},
		"legacy hierarchies beside the unified one": {
			mounts("/evalhost"), "9:name=systemd:/x\n4:memory:/y\n0::/evalhost/9f86d081\n", "/aj/cgroup",
			"/aj/cgroup/9f86d081", "/evalhost/9f86d081",
		},
		"the whole hierarchy mounted": {
			mounts("/"), "0::/evalhost/9f86d081\n", "/aj/cgroup", "/aj/cgroup/evalhost/9f86d081", "/evalhost/9f86d081",
		},
		"a directory below the mount point": {
			mounts("/evalhost"), "0::/evalhost/run-1/9f86d081\n", "/aj/cgroup/run-1",
			"/aj/cgroup/run-1/9f86d081", "/evalhost/run-1/9f86d081",
		},
		"a later mount on the same point": {
			mounts("/other") + mounts("/evalhost"), "0::/evalhost/9f86d081\n", "/aj/cgroup",
			"/aj/cgroup/9f86d081", "/evalhost/9f86d081",
		},
		"a space in the name": {
			mounts(`/a\040b`), "0::/a b/9f86d081\n", "/aj/cgroup", "/aj/cgroup/9f86d081", "/a b/9f86d081",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findOwn(test.mountinfo, test.cgroups, test.mounted)
			if want := (place{test.dir, test.name}); err != nil || got != want {
				t.Errorf("findOwn = %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestACgroupThatIsNotTheContainersOwnIsRefusedWithTheReason(t *testing.T) {
	for name, test := range map[string]struct{ mountinfo, cgroups, says string }{
		"a cgroup namespace of its own":            {mounts("/.."), "0::/\n", "namespace of its own"},
		"the same, seen from a subgroup":           {mounts("/../.."), "0::/shim\n", "namespace of its own"},
		"a namespace rooted beside the home":       {mounts("/evalhost"), "0::/../x/9f86d081\n", "namespace of its own"},
		"another run's home":                       {mounts(testSlice), "0::/system.slice/x.scope\n", "not a parent of it"},
		"a home whose name begins the same":        {mounts("/evalhost/run-1"), "0::/evalhost/run-12/9f\n", "not a parent of it"},
		"the container's own cgroup as its parent": {mounts("/evalhost/9f"), "0::/evalhost/9f\n", "not a parent of it"},
		"no unified hierarchy":                     {mounts("/evalhost"), "4:memory:/y\n", "no unified cgroup hierarchy"},
		"no cgroup mounted there": {
			strings.ReplaceAll(mounts("/evalhost"), " /aj/cgroup ", " /elsewhere "), "0::/evalhost/9f\n", "want cgroup2",
		},
		"a directory mounted there": {
			strings.ReplaceAll(mounts("/evalhost"), "cgroup2 cgroup2", "ext4 /dev/vda"), "0::/evalhost/9f\n", "want cgroup2",
		},
		"nothing mounted": {"", "0::/evalhost/9f\n", "want cgroup2"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findOwn(test.mountinfo, test.cgroups, "/aj/cgroup")
			if err == nil {
				t.Fatalf("findOwn = %+v, want a refusal", got)
			}
			if !strings.Contains(err.Error(), test.says) {
				t.Errorf("the refusal %q does not say %q", err, test.says)
			}
		})
	}
}

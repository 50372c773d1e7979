package guest

import (
	"archive/tar"
	"os"
	"path/filepath"
	"time"
)

// The images that tests use besides the language images.
const (
	TestImage    = "evalhost/test-busybox:local" // a shell and the usual tools, nothing declared
	HostileImage = "evalhost/test-hostile:local" // declares a volume, an entry point and a health check
	WilfulImage  = "evalhost/test-wilful:local"  // the same without the volume, for which alone an image is refused
)

// makeTestImages writes these images, all of one static busybox.
func makeTestImages(tree, dir string) error {
	layer := filepath.Join(dir, "layer.tar")
	if err := writeBusyboxLayer(filepath.Join(tree, "usr/bin/busybox"), layer); err != nil {
		return err
	}
	if err := finishImageKeeping(dir, "test-busybox", layer, TestImage, imageConfig{Env: []string{imagePath}, Cmd: []string{"/bin/true"}}); err != nil {
		return err
	}
	// Its health check writes where every container can, whoever it runs as.
	err := finishImageKeeping(dir, "test-wilful", layer, WilfulImage, imageConfig{
		Env:         []string{imagePath, "LD_PRELOAD=/evil.so"},
		Entrypoint:  []string{"/bin/echo", "the image's own entry point ran"},
		Cmd:         []string{"the image's own command"},
		Healthcheck: &imageHealth{Test: []string{"CMD-SHELL", "echo healthy >>/dev/shm/health"}, Interval: int64(time.Second)},
	})
	if err != nil {
		return err
	}
	return finishImage(dir, "test-hostile", layer, HostileImage, imageConfig{
		Env:         []string{imagePath, "LD_PRELOAD=/evil.so"},
		Entrypoint:  []string{"/bin/echo", "the image's own entry point ran"},
		Cmd:         []string{"the image's own command"},
		Volumes:     map[string]struct{}{"/data": {}},
		Healthcheck: &imageHealth{Test: []string{"CMD-SHELL", "echo healthy >>/data/health"}, Interval: int64(time.Second)},
	})
}

// finishImageKeeping is finishImage for a layer that the next image is made of too.
func finishImageKeeping(dir, name, layer, reference string, config imageConfig) error {
	copied := layer + ".keep"
	if err := os.Link(layer, copied); err != nil {
		return err
	}
	if err := finishImage(dir, name, layer, reference, config); err != nil {
		return err
	}
	return os.Rename(copied, layer)
}

var busyboxApplets = []string{
	"sh", "ash", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "du", "echo", "env", "false", "find", "free", "grep", "head",
	"hostname", "id", "ip", "kill", "ln", "ls", "mkdir", "mkfifo", "mknod", "mount", "mv", "nc", "nproc", "od", "ping", "printf", "ps",
	"pwd", "readlink", "realpath", "rm", "rmdir", "sed", "seq", "sleep", "sort", "stat", "stty", "su", "sync", "tail", "tar", "tee",
	"test", "time", "timeout", "top", "touch", "tr", "true", "umount", "uname", "uniq", "usleep", "wc", "wget", "which", "whoami", "xargs", "yes",
}

func writeBusyboxLayer(busybox, layer string) (err error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	out, err := os.Create(layer)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	tw := tar.NewWriter(out)
	add := func(hdr tar.Header, content []byte) {
		hdr.Format, hdr.Size = tar.FormatUSTAR, int64(len(content))
		if err == nil {
			err = tw.WriteHeader(&hdr)
		}
		if err == nil {
			_, err = tw.Write(content)
		}
	}
	for _, d := range []string{"bin/", "etc/", "proc/", "sys/", "dev/", "usr/", "usr/bin/"} {
		add(tar.Header{Name: d, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	add(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil)
	add(tar.Header{Name: "out/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: 65534, Gid: 65534}, nil)
	add(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, program)
	for _, applet := range busyboxApplets {
		add(tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
	}
	add(tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644},
		[]byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"))
	add(tar.Header{Name: "etc/group", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:\nnogroup:x:65534:\n"))
	if err != nil {
		return err
	}
	return tw.Close()
}

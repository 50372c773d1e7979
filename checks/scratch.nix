# Docker's data on a partition: formatted at every boot, and never when it carries something else.
{ host, ... }:
{
  nodes.judge = {
    imports = [ host ];
    # The first disk, since the root file system is in memory.
    virtualisation.emptyDiskImages = [ 8192 ];
    services.evalhost = {
      languages = [ "c" ];
      scratch.device = "/dev/vda";
    };
  };

  testScript = ''
    judge.wait_for_unit("evalhost-images.service")

    def source():
        return judge.succeed("findmnt --noheadings --output FSTYPE --target /var/lib/evalhost/docker").strip()

    assert source() == "ext4", source()
    judge.succeed("echo kept > /var/lib/evalhost/scratch/mark")

    with subtest("it is empty at the next boot"):
        judge.shutdown()
        judge.start()
        judge.wait_for_unit("evalhost-images.service")
        assert source() == "ext4", source()
        judge.fail("test -e /var/lib/evalhost/scratch/mark")

    with subtest("a program can be started from it"):
        judge.succeed("cp $(readlink -f $(command -v true)) /var/lib/evalhost/scratch/true && /var/lib/evalhost/scratch/true")

    with subtest("a partition with something else on it is left alone"):
        format = judge.succeed("systemctl show -P ExecStart evalhost-format-scratch.service | grep -o '/nix/store[^ ;]*' | head -n 1").strip()
        judge.succeed("truncate -s 64M /tmp/precious && mkfs.ext4 -q -L precious /tmp/precious")
        before = judge.succeed("sha256sum /tmp/precious")
        output = judge.fail(f"{format} /tmp/precious 2>&1")
        assert "left alone" in output, output
        assert judge.succeed("sha256sum /tmp/precious") == before
  '';
}

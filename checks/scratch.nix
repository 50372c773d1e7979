# Docker's data, packages and runs: on a partition that is formatted at every boot, and never when it carries something
# else; or in memory, where there is none. Pages are charged differently there, so both judge.
{ onDisk }:
{ host, lib, ... }:
let
  fileSystem = if onDisk then "ext4" else "tmpfs";
  sum = ../examples/sum;
in
{
  nodes.judge =
    { pkgs, ... }:
    {
      imports = [ host ];
      environment.systemPackages = [ pkgs.e2fsprogs ];
      services.evalhost = {
        languages = [ "python3" ];
        scratch.device = lib.mkIf (!onDisk) null;
      };
      virtualisation = lib.mkIf (!onDisk) {
        emptyDiskImages = [ ];
        # Half of it is what may be written; the host check wants 4 GiB of that to be free.
        memorySize = 12288;
      };
    };

  testScript = ''
    judge.wait_for_unit("evalhost-images.service")

    def source():
        return judge.succeed("findmnt --noheadings --output FSTYPE --target /var/lib/evalhost/docker").strip()

    def judges():
        assert source() == "${fileSystem}", source()
        judge.execute("systemctl stop evalhost-runner.service")
        judge.succeed("evalhost check")
        output = judge.succeed("evalhost judge ${sum} ${sum}/solutions/accepted/sum.py")
        assert "verdict Accepted" in output, output

    judges()
    judge.succeed("echo kept > /var/lib/evalhost/scratch/mark")

    with subtest("it is empty at the next boot, and judges"):
        judge.shutdown()
        judge.start()
        judge.wait_for_unit("evalhost-images.service")
        judge.fail("test -e /var/lib/evalhost/scratch/mark")
        judges()

    with subtest("a program can be started from it"):
        judge.succeed("cp $(readlink -f $(command -v true)) /var/lib/evalhost/scratch/true && /var/lib/evalhost/scratch/true")
  ''
  + lib.optionalString onDisk ''

    with subtest("a partition with something else on it is left alone"):
        format = judge.succeed("systemctl show -P ExecStart evalhost-format-scratch.service | grep -o '/nix/store[^ ;]*' | head -n 1").strip()
        judge.succeed("truncate -s 64M /tmp/precious && mkfs.ext4 -q -L precious /tmp/precious")
        before = judge.succeed("sha256sum /tmp/precious")
        output = judge.fail(f"{format} /tmp/precious 2>&1")
        assert "left alone" in output, output
        assert judge.succeed("sha256sum /tmp/precious") == before
  '';
}

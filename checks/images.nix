# An image that is another than the one that was built stops the host from judging; none is ever pulled.
{ host, ... }:
{
  nodes.judge = {
    imports = [ host ];
    services.evalhost.languages = [ "python3" ];
  };

  testScript = ''
    judge.wait_for_unit("evalhost-images.service")
    manifest = "/etc/evalhost/images.json"

    with subtest("the images are those of the manifest, and nothing else"):
        judge.succeed("test $(docker image ls --quiet | sort -u | wc -l) = 1")
        judge.succeed("evalhost check")

    with subtest("an old image goes when the unit runs again"):
        judge.succeed("tar -cf - -C /etc hostname | docker image import - evalhost/lang-gcc:local")
        judge.succeed("systemctl restart evalhost-images.service")
        judge.fail("docker image inspect evalhost/lang-gcc:local")

    with subtest("another image under the right name is refused, and taken away"):
        load = judge.succeed("systemctl show -P ExecStart evalhost-images.service | grep -o '/nix/store[^ ;]*load-images[^ ;]*' | head -n 1").strip()
        judge.succeed("tar -cf - -C /etc hostname | docker image import - evalhost/lang-cpython:local")
        judge.fail("evalhost check")
        output = judge.fail(f"{load} {manifest} 2>&1")
        assert "is another image" in output, output
        judge.fail("docker image inspect evalhost/lang-cpython:local")
        output = judge.fail(f"{load} {manifest} 2>&1")
        assert "never pulls" in output, output

    with subtest("the unit puts the right one back"):
        judge.succeed("systemctl restart evalhost-images.service")
        judge.succeed("evalhost check")
  '';
}

# The Server is reached; a third machine is not, by anybody, root and Docker included; and nobody reaches the host.
{ host, ... }:
let
  # Answers on two ports, one of which is the Server's.
  listener =
    address:
    { lib, pkgs, ... }:
    {
      networking.firewall.enable = false;
      environment.systemPackages = [ pkgs.curl ];
      networking.interfaces.eth1.ipv4.addresses = lib.mkForce [
        {
          inherit address;
          prefixLength = 24;
        }
      ];
      systemd.services = lib.listToAttrs (
        map
          (
            port:
            lib.nameValuePair "answers-${toString port}" {
              wantedBy = [ "multi-user.target" ];
              serviceConfig.ExecStart = "${lib.getExe pkgs.python3} -m http.server ${toString port} --directory ${pkgs.writeTextDir "answer" "reached"}";
            }
          )
          [
            8080
            9090
          ]
      );
    };
in
{
  nodes = {
    judge =
      { pkgs, ... }:
      {
        imports = [ host ];
        environment.systemPackages = [
          pkgs.curl
          pkgs.python3
        ];
      };
    server = listener "192.168.1.100";
    stranger = listener "192.168.1.101";
  };

  testScript = ''
    start_all()
    for machine in [server, stranger]:
        machine.wait_for_open_port(8080)
        machine.wait_for_open_port(9090)
    judge.wait_for_unit("nftables.service")
    judge.wait_for_unit("evalhost-images.service")

    get = "curl --silent --show-error --max-time 5"

    with subtest("the Server, at its port"):
        assert "reached" in judge.succeed(f"{get} http://192.168.1.100:8080/answer")

    with subtest("the Server, at another port, and a stranger"):
        judge.fail(f"{get} http://192.168.1.100:9090/answer")
        judge.fail(f"{get} http://192.168.1.101:8080/answer")
        judge.fail("ping -c 1 -W 3 192.168.1.101")
        judge.fail("docker pull 192.168.1.101:8080/anything")

    in_container = (
        "docker run --rm --network host evalhost/lang-cpython:local python3 -c "
        + "'import socket; socket.create_connection((\"192.168.1.101\", 8080), 5)'"
    )

    with subtest("a container on the host's own network is no way out"):
        judge.fail(in_container)

    with subtest("nobody gets in"):
        judge.execute("python3 -m http.server 8000 >/dev/null 2>&1 &")
        address = judge.succeed("ip -4 -o addr show dev eth1 | awk '{print $4}' | cut -d/ -f1 | head -n 1").strip()
        server.fail(f"ping -c 1 -W 3 {address}")
        server.fail(f"{get} http://{address}:8000/")

    with subtest("it was the rules that refused: without them everything answers"):
        judge.succeed("nft delete table inet evalhost")
        assert "reached" in judge.succeed(f"{get} http://192.168.1.101:8080/answer")
        judge.succeed(in_container)
        server.succeed(f"{get} http://{address}:8000/ >&2")
        judge.succeed("systemctl restart nftables.service")
        judge.fail(f"{get} http://192.168.1.101:8080/answer")

    with subtest("what is added later is let out to, and prolonged"):
        judge.succeed("echo 'server 192.168.1.101 8080' > /tmp/egress")
        refresh = judge.succeed("systemctl show -P ExecStart evalhost-egress.service | grep -o '/nix/store[^ ;]*' | head -n 1").strip()
        for _ in range(2):
            judge.succeed(f"{refresh} /tmp/egress")
        assert "reached" in judge.succeed(f"{get} http://192.168.1.101:8080/answer")
  '';
}

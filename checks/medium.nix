# For machines that are booted from a medium of ours and are no nodes of the test driver: a Server on the machine that runs
# the test, which QEMU's own network shows them as 10.0.2.2, and a submission that has to come back judged.
{
  firmware,
  lib,
  pkgs,
  programs,
}:
{
  url = "http://10.0.2.2:8080/api/v1";

  # The command that boots a machine with these drives; half of its memory is scratch where it has no disk.
  start =
    drives:
    lib.concatStringsSep " " (
      [
        "${lib.getExe' pkgs.qemu_test "qemu-kvm"}"
        "-cpu max -smp 2 -m 8192 -netdev user,id=net -device virtio-net-pci,netdev=net"
      ]
      ++ lib.optionals (firmware == "uefi") [
        "-drive if=pflash,format=raw,unit=0,readonly=on,file=${pkgs.OVMF.firmware}"
        "-drive if=pflash,format=raw,unit=1,readonly=on,file=${pkgs.OVMF.variables}"
      ]
      ++ drives
    );

  script = ''
    import json
    import shutil
    import subprocess
    import urllib.request
    from typing import Any

    def boots(name, command):
        machine = create_machine(command, name=name)
        machine.start()
        return machine

    def control(method: str, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:8080/_test{path}", data=body, method=method, headers={"X-Evalhost-Control": "1"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read() or "null")

    def serve():
        """Starts a Server that every Runner may join."""
        server = subprocess.Popen(["${lib.getExe programs.refserver}", "-listen", "127.0.0.1:8080", "-approve-all"])
        def listens(_):
            try:
                return control("GET", "/state") is not None
            except OSError:
                assert server.poll() is None, "the reference server does not start"
                return False
        retry(listens)
        return server

    def judges():
        """Waits for a Runner, which joins once its machine is proved, and has it judge."""
        retry(lambda _: bool(control("GET", "/state")["runners"]))
        with open(shutil.make_archive("/tmp/sum", "zip", "${../examples}/sum"), "rb") as package:
            problem = control("POST", "/packages?name=sum&type=standard-io@1", package.read())["id"]
        solutions = "${../examples}/sum/solutions"
        for file, verdict in [("accepted/sum.c", "Accepted"), ("wrong_answer/narrow.c", "Wrong answer")]:
            with open(f"{solutions}/{file}", "rb") as source:
                name = file.rsplit("/", 1)[1]
                job = control(
                    "POST", f"/submissions?problem={problem}&fileName={name}&language=c11-gcc", source.read()
                )
            job = control("GET", f"/jobs/{job['id']}?waitSeconds=240")
            assert job.get("result", {}).get("verdict") == verdict, f"{file}: {job}"
  '';
}

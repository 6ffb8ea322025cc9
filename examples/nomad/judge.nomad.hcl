# A batch job whose task is a sandbox: Nomad schedules, confine holds what the task may. raw_exec runs confine as it is, so the client has to allow it.
# Tried: parsed as HCL; its command line by the tests, with what Nomad fills in. No agent was asked.
job "judge" {
  type = "batch"

  group "judge" {
    restart {
      attempts = 0
      mode     = "fail"
    }

    task "run" {
      driver = "raw_exec"

      config {
        command = "/usr/local/bin/confine"
        args    = ["--memory-limit", "${NOMAD_MEMORY_LIMIT}M", "--time-limit", "60s", "--processes", "64", "--workdir", "rw", "--chdir", "${NOMAD_TASK_DIR}", "--", "sh", "-c", "echo judged"]
      }

      resources {
        cpu    = 500
        memory = 128
      }
    }
  }
}

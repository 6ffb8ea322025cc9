package watch

import "testing"

func TestIPCMemoryAddsUpWhatTheTablesShow(t *testing.T) {
	for name, c := range map[string]struct {
		table int
		text  string
		want  int64
	}{
		"nothing": {0, "       key      shmid perms\n", 0},
		"segments": {0, "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n" +
			"         0          0   600               1048576     4     4      0     0     0     0     0 1795418640 1795418640 1795418640               8192                  4096\n" +
			"         0          1   600               1048576     4     4      0     0     0     0     0          0          0 1795418640                    0                     0\n",
			2*ipcObjectSize + 12288},
		"semaphores": {1, "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n" +
			"         0          0   600      32000     0     0     0     0          0 1795418640\n", ipcObjectSize + 32000*semaphoreSize},
		"messages": {2, "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n" +
			"         0          0   600        100          3     9     0     0     0     0     0          0          0 1795418640\n", ipcObjectSize + 100 + 3*messageSize},
	} {
		if got := ipcMemory([]byte(c.text), c.table); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

import socket,time
a=socket.getaddrinfo('web.test.example',8099,socket.AF_INET)[0][4]
for n in range(3):
    t=time.time()
    for i in range(1000):
        c=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); c.connect(a); c.close()
    print('udp connect', (time.time()-t)/1000)
    p=socket.socketpair()
    t=time.time()
    for i in range(3000): p[0].sendmsg([b'x'])
    print('unix sendmsg', (time.time()-t)/3000)
    t=time.time()
    for i in range(3000): p[1].recvmsg(1)
    print('unix recvmsg', (time.time()-t)/3000)
    t=time.time()
    for i in range(200):
        c=socket.socket(); c.connect(a); c.close()
    print('tcp connect', (time.time()-t)/200)

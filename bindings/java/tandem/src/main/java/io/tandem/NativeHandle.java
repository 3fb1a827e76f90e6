package io.tandem;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A native object and how many calls are using it. It is freed when it is closed and no call uses it any more: close()
 * may come from any thread, also from a callback of the object's own call. An owner that is forgotten without close() is
 * freed once the garbage collector has found it; a call that is still running then is not disturbed.
 */
final class NativeHandle {
    /** What can be done with an address. */
    interface Kind {
        void free(long address);

        /** Makes a running call end soon. */
        void cancel(long address);
    }

    private static final AtomicInteger live = new AtomicInteger();

    private final long address;
    private final Kind kind;
    private final String name;
    private int users;
    private boolean closed;
    private Forgotten forgotten;

    private NativeHandle(long address, Kind kind, String name) {
        this.address = address;
        this.kind = kind;
        this.name = name;
        live.incrementAndGet();
    }

    /** @param owner the object whose end frees the handle; it must not be reachable from kind */
    static NativeHandle own(Object owner, long address, Kind kind, String name) {
        NativeHandle handle = new NativeHandle(address, kind, name);
        handle.forgotten = new Forgotten(owner, handle);
        return handle;
    }

    /** How many native objects there are; for tests. */
    static int liveCount() {
        return live.get();
    }

    /** The address, valid until release(). */
    synchronized long acquire() {
        if (closed) {
            throw new IllegalStateException("the " + name + " is closed");
        }
        ++users;
        return address;
    }

    void release() {
        synchronized (this) {
            --users;
            if (!closed || users > 0) {
                return;
            }
        }
        free();
    }

    synchronized boolean isClosed() {
        return closed;
    }

    /** Does nothing if it is closed. */
    synchronized void cancel() {
        if (!closed) {
            kind.cancel(address);
        }
    }

    void close() {
        close(true);
    }

    private void close(boolean cancelRunning) {
        synchronized (this) {
            if (closed) {
                return;
            }
            closed = true;
            if (users > 0) {
                if (cancelRunning) {
                    kind.cancel(address);
                }
                return; // The last call frees it.
            }
        }
        free();
    }

    private void free() {
        forgotten.forget();
        kind.free(address);
        live.decrementAndGet();
    }

    /** Java 8 and Android 8 have no java.lang.ref.Cleaner. */
    private static final class Forgotten extends PhantomReference<Object> {
        private static final ReferenceQueue<Object> queue = new ReferenceQueue<>();
        private static final Set<Forgotten> all = Collections.synchronizedSet(new HashSet<Forgotten>());

        static {
            Thread thread = new Thread(Forgotten::freeForgotten, "tandem-cleaner");
            thread.setDaemon(true);
            thread.setContextClassLoader(null);
            thread.start();
        }

        private final NativeHandle handle;

        Forgotten(Object owner, NativeHandle handle) {
            super(owner, queue);
            this.handle = handle;
            all.add(this);
        }

        void forget() {
            all.remove(this);
            clear();
        }

        private static void freeForgotten() {
            for (; ; ) {
                try {
                    ((Forgotten) queue.remove()).handle.close(false);
                } catch (InterruptedException e) {
                    // Nobody but this class has a reason to; go on.
                }
            }
        }
    }
}

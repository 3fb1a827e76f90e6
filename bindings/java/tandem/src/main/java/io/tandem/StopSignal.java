package io.tandem;

/**
 * Stops one generation, whenever: before it begins, while it runs, and after it without effect. For code that must not
 * stop somebody else's generation by mistake; for a stop button {@link LlmModule#stop} is simpler.
 */
public final class StopSignal {
    private boolean stopped;
    private Session target;

    /** From any thread. */
    public synchronized void stop() {
        stopped = true;
        if (target != null) {
            target.cancel();
        }
    }

    public synchronized boolean isStopped() {
        return stopped;
    }

    synchronized void attach(Session session) {
        target = session;
        if (stopped) {
            session.cancel();
        }
    }

    /** A request that came too late for its generation must not stop the next one. */
    synchronized void detach() {
        if (target != null) {
            target.clearCancel();
            target = null;
        }
    }
}

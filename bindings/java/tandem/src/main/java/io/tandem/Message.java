package io.tandem;

/** A turn of a conversation. */
public final class Message {
    private final String role;
    private final String content;
    private final String fields;

    public Message(String role, String content) {
        this(role, content, "");
    }

    /**
     * @param role "system", "user", "assistant", …
     * @param fields more of it, as a JSON object for the model's chat template: {"tool_calls": […]}; "" for none
     */
    public Message(String role, String content, String fields) {
        this.role = Check.notNull(role, "role");
        this.content = Check.notNull(content, "content");
        this.fields = Check.notNull(fields, "fields");
    }

    public static Message system(String content) {
        return new Message("system", content);
    }

    public static Message user(String content) {
        return new Message("user", content);
    }

    public static Message assistant(String content) {
        return new Message("assistant", content);
    }

    public String role() {
        return role;
    }

    public String content() {
        return content;
    }

    public String fields() {
        return fields;
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof Message)) {
            return false;
        }
        Message m = (Message) other;
        return role.equals(m.role) && content.equals(m.content) && fields.equals(m.fields);
    }

    @Override
    public int hashCode() {
        return (role.hashCode() * 31 + content.hashCode()) * 31 + fields.hashCode();
    }

    @Override
    public String toString() {
        return role + ": " + content;
    }
}

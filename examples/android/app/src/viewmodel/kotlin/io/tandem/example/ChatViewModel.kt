package io.tandem.example

import io.tandem.GenerateConfig
import io.tandem.LlmModule
import io.tandem.kotlin.generateFlow
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Job
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.StateFlow
import kotlinx.coroutines.flow.asStateFlow
import kotlinx.coroutines.flow.update
import kotlinx.coroutines.launch
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock

/** What answers: a model, or a stand-in in tests. */
interface Assistant {
    /** The answer, piece by piece. Cancelling its collector stops it. */
    fun answer(prompt: String): Flow<String>

    /** Forgets the conversation; never called while an answer is collected. */
    fun reset()
}

class ModuleAssistant(
    private val module: LlmModule,
    private val config: GenerateConfig = GenerateConfig.DEFAULT,
) : Assistant {
    override fun answer(prompt: String): Flow<String> = module.generateFlow(prompt, config)

    override fun reset() = module.resetContext()
}

/** A line of the conversation. */
data class ChatLine(val fromUser: Boolean, val text: String)

/** All that a chat screen shows. */
data class ChatState(
    val lines: List<ChatLine> = emptyList(),
    val answering: Boolean = false,
    val error: String? = null,
)

/**
 * A chat screen's logic, without Android: the screen shows [state] and calls the methods, all in one thread, which is
 * that of [scope].
 */
class ChatViewModel(private val assistant: Assistant, private val scope: CoroutineScope) {
    private val mutableState = MutableStateFlow(ChatState())
    private val model = Mutex()
    private var job: Job? = null

    val state: StateFlow<ChatState> = mutableState.asStateFlow()

    /** Sends a message; an answer that is still coming is stopped first. Blank text is ignored. */
    fun send(text: String) {
        val prompt = text.trim()
        if (prompt.isEmpty()) return
        replaceJob {
            mutableState.update {
                ChatState(it.lines + ChatLine(true, prompt) + ChatLine(false, ""), answering = true)
            }
            try {
                assistant.answer(prompt).collect { piece -> mutableState.update { it.withPiece(piece) } }
                finish(null)
            } catch (e: CancellationException) {
                finish(null)
                throw e
            } catch (e: Exception) {
                finish(e.message ?: e.toString())
            }
        }
    }

    /** Stops the answer; what came of it stays. */
    fun stop() {
        job?.cancel()
    }

    /** Begins a new conversation. */
    fun reset() {
        replaceJob {
            assistant.reset()
            mutableState.value = ChatState()
        }
    }

    /** One thing at a time: the next begins when the one before has left the model. */
    private fun replaceJob(body: suspend () -> Unit) {
        job?.cancel()
        job = scope.launch { model.withLock { body() } }
    }

    private fun finish(error: String?) = mutableState.update { state ->
        // A turn of which nothing came is forgotten by the model, too.
        val silent = state.lines.lastOrNull()?.let { !it.fromUser && it.text.isEmpty() } == true
        ChatState(if (silent) state.lines.dropLast(1) else state.lines, answering = false, error = error)
    }

    private fun ChatState.withPiece(piece: String): ChatState {
        val last = lines.last()
        return copy(lines = lines.dropLast(1) + last.copy(text = last.text + piece))
    }
}
